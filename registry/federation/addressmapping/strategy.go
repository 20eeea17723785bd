// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressmapping says how address mappings are created and updated.
package addressmapping

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates address mappings, of whose spec nothing but the ports changes.
// They have no status.
type Strategy struct {
	strategy.Strategy[*federation.AddressMapping, federation.AddressMappingSpec, struct{}]
}

// NewStrategy makes the strategy of address mappings, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return Strategy{strategy.New(typer, strategy.Kind[*federation.AddressMapping, federation.AddressMappingSpec, struct{}]{
		Namespaced: true,
		Parts: func(obj *federation.AddressMapping) (*federation.AddressMappingSpec, *struct{}) {
			return &obj.Spec, &struct{}{}
		},
		Validate:       validation.ValidateAddressMapping,
		ValidateUpdate: validation.ValidateAddressMappingUpdate,
	})}
}

// PrepareForUpdate keeps what was allocated when it is left out, as the
// manifests that a mapping was made from leave it out.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	mapping, before := obj.(*federation.AddressMapping), old.(*federation.AddressMapping)
	if mapping.Spec.Mapped == "" {
		mapping.Spec.Mapped = before.Spec.Mapped
	}
	s.Strategy.PrepareForUpdate(ctx, obj, old)
}
