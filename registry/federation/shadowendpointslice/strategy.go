// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowendpointslice says how shadow endpoint slices are created and updated.
package shadowendpointslice

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates shadow endpoint slices and updates their spec.
type Strategy = strategy.Strategy[*federation.ShadowEndpointSlice, federation.ShadowEndpointSliceSpec, federation.ShadowEndpointSliceStatus]

// NewStrategy makes the strategy of shadow endpoint slices, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.ShadowEndpointSlice, federation.ShadowEndpointSliceSpec, federation.ShadowEndpointSliceStatus]{
		Namespaced: true,
		Parts: func(obj *federation.ShadowEndpointSlice) (*federation.ShadowEndpointSliceSpec, *federation.ShadowEndpointSliceStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateShadowEndpointSlice,
		ValidateUpdate:       validation.ValidateShadowEndpointSliceUpdate,
		ValidateStatusUpdate: validation.ValidateShadowEndpointSliceStatusUpdate,
	})
}
