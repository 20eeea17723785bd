// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreigncluster says how foreign clusters are created and updated.
package foreigncluster

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// Strategy creates foreign clusters and updates their spec.
type Strategy = strategy.Strategy[*federation.ForeignCluster, federation.ForeignClusterSpec, federation.ForeignClusterStatus]

// NewStrategy makes the strategy of foreign clusters, whose kind typer knows. Its
// warnings read the virtual volumes of plans.
func NewStrategy(typer runtime.ObjectTyper, plans plan.Reader) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.ForeignCluster, federation.ForeignClusterSpec, federation.ForeignClusterStatus]{
		Parts: func(obj *federation.ForeignCluster) (*federation.ForeignClusterSpec, *federation.ForeignClusterStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare:              strategy.Hold[*federation.ForeignCluster],
		Validate:             validation.ValidateForeignCluster,
		ValidateUpdate:       validation.ValidateForeignClusterUpdate,
		ValidateStatusUpdate: validation.ValidateForeignClusterStatusUpdate,
		Warnings:             warnings,
		Surroundings:         surroundings(plans),
	})
}
