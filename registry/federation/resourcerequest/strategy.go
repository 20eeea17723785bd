// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcerequest says how resource requests are created and updated.
package resourcerequest

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates resource requests and updates their spec.
type Strategy = strategy.Strategy[*federation.ResourceRequest, federation.ResourceRequestSpec, federation.ResourceRequestStatus]

// NewStrategy makes the strategy of resource requests, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.ResourceRequest, federation.ResourceRequestSpec, federation.ResourceRequestStatus]{
		Namespaced: true,
		Parts: func(obj *federation.ResourceRequest) (*federation.ResourceRequestSpec, *federation.ResourceRequestStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateResourceRequest,
		ValidateUpdate:       validation.ValidateResourceRequestUpdate,
		ValidateStatusUpdate: validation.ValidateResourceRequestStatusUpdate,
	})
}
