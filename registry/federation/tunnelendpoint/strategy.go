// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tunnelendpoint says how tunnel endpoints are created and updated.
package tunnelendpoint

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates tunnel endpoints and updates their spec.
type Strategy = strategy.Strategy[*federation.TunnelEndpoint, federation.TunnelEndpointSpec, federation.TunnelEndpointStatus]

// NewStrategy makes the strategy of tunnel endpoints, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.TunnelEndpoint, federation.TunnelEndpointSpec, federation.TunnelEndpointStatus]{
		Namespaced: true,
		Parts: func(obj *federation.TunnelEndpoint) (*federation.TunnelEndpointSpec, *federation.TunnelEndpointStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateTunnelEndpoint,
		ValidateUpdate:       validation.ValidateTunnelEndpointUpdate,
		ValidateStatusUpdate: validation.ValidateTunnelEndpointStatusUpdate,
	})
}
