// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresspool says how address pools are created and updated.
package addresspool

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates address pools and updates their spec.
type Strategy = strategy.Strategy[*federation.AddressPool, federation.AddressPoolSpec, federation.AddressPoolStatus]

// NewStrategy makes the strategy of address pools, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.AddressPool, federation.AddressPoolSpec, federation.AddressPoolStatus]{
		Parts: func(obj *federation.AddressPool) (*federation.AddressPoolSpec, *federation.AddressPoolStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateAddressPool,
		ValidateUpdate:       validation.ValidateAddressPoolUpdate,
		ValidateStatusUpdate: validation.ValidateAddressPoolStatusUpdate,
	})
}
