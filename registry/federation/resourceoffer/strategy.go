// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceoffer says how resource offers are created and updated.
package resourceoffer

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates resource offers and updates their spec.
type Strategy = strategy.Strategy[*federation.ResourceOffer, federation.ResourceOfferSpec, federation.ResourceOfferStatus]

// NewStrategy makes the strategy of resource offers, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.ResourceOffer, federation.ResourceOfferSpec, federation.ResourceOfferStatus]{
		Namespaced: true,
		Parts: func(obj *federation.ResourceOffer) (*federation.ResourceOfferSpec, *federation.ResourceOfferStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateResourceOffer,
		ValidateUpdate:       validation.ValidateResourceOfferUpdate,
		ValidateStatusUpdate: validation.ValidateResourceOfferStatusUpdate,
	})
}
