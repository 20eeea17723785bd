// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespacemap says how namespace maps are created and updated.
package namespacemap

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates namespace maps and updates their spec.
type Strategy = strategy.Strategy[*federation.NamespaceMap, federation.NamespaceMapSpec, federation.NamespaceMapStatus]

// NewStrategy makes the strategy of namespace maps, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.NamespaceMap, federation.NamespaceMapSpec, federation.NamespaceMapStatus]{
		Namespaced: true,
		Parts: func(obj *federation.NamespaceMap) (*federation.NamespaceMapSpec, *federation.NamespaceMapStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateNamespaceMap,
		ValidateUpdate:       validation.ValidateNamespaceMapUpdate,
		ValidateStatusUpdate: validation.ValidateNamespaceMapStatusUpdate,
	})
}
