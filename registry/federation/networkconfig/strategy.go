// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkconfig says how network configurations are created and updated.
package networkconfig

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates network configurations and updates their spec.
type Strategy = strategy.Strategy[*federation.NetworkConfig, federation.NetworkConfigSpec, federation.NetworkConfigStatus]

// NewStrategy makes the strategy of network configurations, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.NetworkConfig, federation.NetworkConfigSpec, federation.NetworkConfigStatus]{
		Namespaced: true,
		Parts: func(obj *federation.NetworkConfig) (*federation.NetworkConfigSpec, *federation.NetworkConfigStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateNetworkConfig,
		ValidateUpdate:       validation.ValidateNetworkConfigUpdate,
		ValidateStatusUpdate: validation.ValidateNetworkConfigStatusUpdate,
	})
}
