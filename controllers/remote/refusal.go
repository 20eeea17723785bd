// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/printable"
)

// objectsRemedy is the end of the text of each refusal because of the limits for numbers of objects. Like the messages
// of the ValidatingAdmissionPolicy federation-peers, it does not name the ForeignCluster, which the consumer does not
// know.
const objectsRemedy = "; the provider's administrator sets the maximum in spec.incomingPolicy.objects of the " +
	"ForeignCluster, or in the value policy.objects"

// Refusal returns the error of a write in a remote namespace that an API server refused, as one line of at most most
// bytes without control characters. If the write exceeds a limit of the number of objects, the line ends with the field
// of the policy, which is not cut off. most must be at least 256.
func Refusal(err error, most int) string {
	remedy := ""
	if exceedsObjects(err) {
		remedy = objectsRemedy
	}
	return printable.Line(err.Error(), most-len(remedy)) + remedy
}

// exceedsObjects reports whether kube-apiserver refused a write because it exceeds a limit of the number of objects in
// the ResourceQuota of a remote namespace. The other limits of this ResourceQuota are those of offers.
func exceedsObjects(err error) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	// The admission plugin ResourceQuota writes "exceeded quota: <name>, requested: <resource>=<amount>,…, used: …", and
	// lists only resources whose limits are exceeded.
	_, rest, found := strings.Cut(err.Error(), "exceeded quota: "+naming.RemoteNamespaceQuota+", requested: ")
	requested, _, complete := strings.Cut(rest, ", used: ")
	return found && complete && slices.ContainsFunc(strings.Split(requested, ","), func(amount string) bool {
		resource, _, _ := strings.Cut(amount, "=")
		return validation.UnknownObject(resource) == ""
	})
}
