// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaceoffloading says how namespace offloadings are created and updated.
package namespaceoffloading

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// Strategy creates namespace offloadings and updates their spec.
type Strategy = strategy.Strategy[*federation.NamespaceOffloading, federation.NamespaceOffloadingSpec, federation.NamespaceOffloadingStatus]

// NewStrategy makes the strategy of namespace offloadings, whose kind typer
// knows, and which looks around in the cluster by plans.
func NewStrategy(typer runtime.ObjectTyper, plans plan.Reader) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.NamespaceOffloading, federation.NamespaceOffloadingSpec, federation.NamespaceOffloadingStatus]{
		Namespaced: true,
		Parts: func(obj *federation.NamespaceOffloading) (*federation.NamespaceOffloadingSpec, *federation.NamespaceOffloadingStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare:              strategy.Hold[*federation.NamespaceOffloading],
		Validate:             validation.ValidateNamespaceOffloading,
		ValidateUpdate:       validation.ValidateNamespaceOffloadingUpdate,
		ValidateStatusUpdate: validation.ValidateNamespaceOffloadingStatusUpdate,
		Warnings:             warnings,
		Surroundings:         surroundings(plans),
	})
}
