// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtualnode says how virtual nodes are created and updated.
package virtualnode

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates virtual nodes and updates their spec.
type Strategy = strategy.Strategy[*federation.VirtualNode, federation.VirtualNodeSpec, federation.VirtualNodeStatus]

// NewStrategy makes the strategy of virtual nodes, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.VirtualNode, federation.VirtualNodeSpec, federation.VirtualNodeStatus]{
		Namespaced: true,
		Parts: func(obj *federation.VirtualNode) (*federation.VirtualNodeSpec, *federation.VirtualNodeStatus) {
			return &obj.Spec, &obj.Status
		},
		Validate:             validation.ValidateVirtualNode,
		ValidateUpdate:       validation.ValidateVirtualNodeUpdate,
		ValidateStatusUpdate: validation.ValidateVirtualNodeStatusUpdate,
	})
}
