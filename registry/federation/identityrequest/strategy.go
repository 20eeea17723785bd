// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identityrequest says how identity requests are created and updated.
package identityrequest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates identity requests and updates their spec.
type Strategy = strategy.Strategy[*federation.IdentityRequest, federation.IdentityRequestSpec, federation.IdentityRequestStatus]

// NewStrategy makes the strategy of identity requests, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.IdentityRequest, federation.IdentityRequestSpec, federation.IdentityRequestStatus]{
		Parts: func(obj *federation.IdentityRequest) (*federation.IdentityRequestSpec, *federation.IdentityRequestStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validate,
		ValidateUpdate:       validateUpdate,
		ValidateStatusUpdate: validation.ValidateIdentityRequestStatusUpdate,
	})
}

// validate checks a request against the invitation that its name stands for.
func validate(request *federation.IdentityRequest) field.ErrorList {
	invitation, _ := naming.InvitationOfAccount(request.Name)
	return validation.ValidateIdentityRequest(request, invitation)
}

// validateUpdate checks a new version of a request in the same way.
func validateUpdate(request, old *federation.IdentityRequest) field.ErrorList {
	invitation, _ := naming.InvitationOfAccount(request.Name)
	return validation.ValidateIdentityRequestUpdate(request, old, invitation)
}
