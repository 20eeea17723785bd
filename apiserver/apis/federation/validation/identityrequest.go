// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

// ValidateIdentityRequest tells what is wrong with a new identity request,
// where invitation is the UID of the PeeringToken that its name stands for,
// or empty when it stands for none.
func ValidateIdentityRequest(request *federation.IdentityRequest, invitation types.UID) field.ErrorList {
	errs := metadata(request, false)
	if !uuid.MatchString(string(invitation)) {
		errs = append(errs, field.Invalid(metadataPath.Child("name"), truncate(request.Name), "must be the name of the invitation's service account"))
	}
	errs = append(errs, requiredClusterID(request.Spec.ClusterID, specPath.Child("clusterID"))...)
	errs = append(errs, clusterName(request.Spec.ClusterName, specPath.Child("clusterName"))...)
	_, wrong := ValidateCertificateRequest(request.Spec.Request, string(invitation), specPath.Child("request"))
	return append(errs, wrong...)
}

// ValidateIdentityRequestUpdate tells what is wrong with a new version of an
// identity request. Who asks cannot change; another key can be asked for.
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

// ValidateIdentityRequestStatusUpdate tells what is wrong with a new status.
func ValidateIdentityRequestStatusUpdate(request, old *federation.IdentityRequest) field.ErrorList {
	errs := metadataUpdate(request, old)
	errs = append(errs, caBundle(request.Status.Certificate, statusPath.Child("certificate"))...)
	errs = append(errs, optional(request.Status.ServiceAccountName, statusPath.Child("serviceAccountName"), subdomain)...)
	errs = append(errs, optional(request.Status.ClusterID, statusPath.Child("clusterID"), clusterID)...)
	errs = append(errs, optional(request.Status.TenantNamespace, statusPath.Child("tenantNamespace"), dnsLabel)...)
	return append(errs, conditions(request.Status.Conditions, statusPath.Child("conditions"))...)
}
