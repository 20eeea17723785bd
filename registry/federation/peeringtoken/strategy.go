// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peeringtoken says how peering tokens are created and updated.
package peeringtoken

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates peering tokens and updates their spec.
type Strategy = strategy.Strategy[*federation.PeeringToken, federation.PeeringTokenSpec, federation.PeeringTokenStatus]

// NewStrategy makes the strategy of peering tokens, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.PeeringToken, federation.PeeringTokenSpec, federation.PeeringTokenStatus]{
		Parts: func(obj *federation.PeeringToken) (*federation.PeeringTokenSpec, *federation.PeeringTokenStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidatePeeringToken,
		ValidateUpdate:       validation.ValidatePeeringTokenUpdate,
		ValidateStatusUpdate: validation.ValidatePeeringTokenStatusUpdate,
		Warnings:             warnings,
	})
}
