// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

// ValidateIdentityRequest validates a new identity request. invitation is the UID of the
// PeeringToken, derived from the name of the request, which is the name of the ServiceAccount of an
// invitation. If the name has another form, invitation is empty, and the request is invalid.
func ValidateIdentityRequest(request *federation.IdentityRequest, invitation types.UID) field.ErrorList {
	errs := metadata(request, false)
	if !uuid.MatchString(string(invitation)) {
		errs = append(errs, field.Invalid(metadataPath.Child("name"), truncate(request.Name),
			"must be the name of the invitation's service account"))
	}
	errs = append(errs, requiredClusterID(request.Spec.ClusterID, specPath.Child("clusterID"))...)
	errs = append(errs, clusterName(request.Spec.ClusterName, specPath.Child("clusterName"))...)
	_, wrong := ValidateCertificateRequest(request.Spec.Request, string(invitation), specPath.Child("request"))
	return append(errs, wrong...)
}

// ValidateIdentityRequestUpdate validates an update of an identity request. spec.clusterID and
// spec.clusterName cannot change; spec.request can change to a request for another key.
func ValidateIdentityRequestUpdate(request, old *federation.IdentityRequest, invitation types.UID) field.ErrorList {
	errs := metadataUpdate(request, old)
	errs = append(errs, immutable(request.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
	errs = append(errs, immutable(request.Spec.ClusterName, old.Spec.ClusterName, specPath.Child("clusterName"))...)
	if bytes.Equal(request.Spec.Request, old.Spec.Request) {
		return errs
	}
	_, wrong := ValidateCertificateRequest(request.Spec.Request, string(invitation), specPath.Child("request"))
	return append(errs, wrong...)
}

// ValidateIdentityRequestStatusUpdate validates an update of the status of an identity request.
func ValidateIdentityRequestStatusUpdate(request, old *federation.IdentityRequest) field.ErrorList {
	errs := metadataUpdate(request, old)
	errs = append(errs, caBundle(request.Status.Certificate, statusPath.Child("certificate"))...)
	errs = append(errs, optional(request.Status.ServiceAccountName, statusPath.Child("serviceAccountName"), subdomain)...)
	errs = append(errs, optional(request.Status.ClusterID, statusPath.Child("clusterID"), clusterID)...)
	errs = append(errs, optional(request.Status.TenantNamespace, statusPath.Child("tenantNamespace"), dnsLabel)...)
	return append(errs, conditions(request.Status.Conditions, statusPath.Child("conditions"))...)
}
