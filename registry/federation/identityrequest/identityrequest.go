// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identityrequest serves IdentityRequests. Each invitation allows the creation of one.
package identityrequest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

// Kind is the definition of IdentityRequests.
var Kind = resource.Kind[*federation.IdentityRequest, federation.IdentityRequestSpec, federation.IdentityRequestStatus]{
	Resource: "identityrequests", Singular: "identityrequest",
	New:     func() runtime.Object { return &federation.IdentityRequest{} },
	NewList: func() runtime.Object { return &federation.IdentityRequestList{} },
	Parts: func(obj *federation.IdentityRequest) (*federation.IdentityRequestSpec, *federation.IdentityRequestStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validate,
	ValidateUpdate:       validateUpdate,
	ValidateStatusUpdate: validation.ValidateIdentityRequestStatusUpdate,
	Columns: store.Table[*federation.IdentityRequest]{
		{Name: "Cluster", Description: "name of the consumer", Cell: func(r *federation.IdentityRequest) any {
			return r.Spec.ClusterName
		}},
		{Name: "Issued", Description: "whether the certificate was issued", Cell: func(r *federation.IdentityRequest) any {
			if issued := meta.FindStatusCondition(r.Status.Conditions, federation.ConditionIssued); issued != nil {
				return string(issued.Status)
			}
			return string(metav1.ConditionUnknown)
		}},
		{Name: "Tenant Namespace", Description: "tenant namespace of the consumer", Wide: true,
			Cell: func(r *federation.IdentityRequest) any {
				return store.OrNone(r.Status.TenantNamespace)
			}},
		{Name: "Cluster ID", Description: "the UID of the consumer's namespace kube-system", Wide: true,
			Cell: func(r *federation.IdentityRequest) any {
				return r.Spec.ClusterID
			}},
	},
}

// validate validates a new IdentityRequest. Its name contains the UID of the PeeringToken of its invitation.
func validate(request *federation.IdentityRequest) field.ErrorList {
	invitation, _ := naming.InvitationOfAccount(request.Name)
	return validation.ValidateIdentityRequest(request, invitation)
}

// validateUpdate validates an update of an IdentityRequest. Its name contains the UID of the PeeringToken of its
// invitation.
func validateUpdate(request, old *federation.IdentityRequest) field.ErrorList {
	invitation, _ := naming.InvitationOfAccount(request.Name)
	return validation.ValidateIdentityRequestUpdate(request, old, invitation)
}
