// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowpod says how shadow pods are created and updated.
package shadowpod

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/strategy"
)

// Strategy creates shadow pods and updates their spec.
type Strategy = strategy.Strategy[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]

// NewStrategy makes the strategy of shadow pods, whose kind typer knows.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return strategy.New(typer, strategy.Kind[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]{
		Namespaced: true,
		Parts: func(obj *federation.ShadowPod) (*federation.ShadowPodSpec, *federation.ShadowPodStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare:              strategy.Hold[*federation.ShadowPod],
		Validate:             validation.ValidateShadowPod,
		ValidateUpdate:       validation.ValidateShadowPodUpdate,
		ValidateStatusUpdate: validation.ValidateShadowPodStatusUpdate,
	})
}
