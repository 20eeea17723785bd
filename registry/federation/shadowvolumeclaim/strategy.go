// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowvolumeclaim defines how shadow volume claims are created and updated.
package shadowvolumeclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/reserved"
	"liqo.io/federation/registry/federation/storagequota"
	"liqo.io/federation/registry/federation/strategy"
)

type generic = strategy.Strategy[*federation.ShadowVolumeClaim, federation.ShadowVolumeClaimSpec, federation.ShadowVolumeClaimStatus]

// Strategy creates shadow volume claims and updates their spec. A new claim is held
// until its volume is released, and its status names the consumer that it counts
// against.
type Strategy struct {
	generic
}

// NewStrategy returns the strategy of shadow volume claims, whose kind typer has.
func NewStrategy(typer runtime.ObjectTyper) Strategy {
	return Strategy{strategy.New(typer, strategy.Kind[*federation.ShadowVolumeClaim, federation.ShadowVolumeClaimSpec, federation.ShadowVolumeClaimStatus]{
		Namespaced: true,
		Parts: func(obj *federation.ShadowVolumeClaim) (*federation.ShadowVolumeClaimSpec, *federation.ShadowVolumeClaimStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare:              strategy.Hold[*federation.ShadowVolumeClaim],
		Validate:             validation.ValidateShadowVolumeClaim,
		ValidateUpdate:       validation.ValidateShadowVolumeClaimUpdate,
		ValidateStatusUpdate: validation.ValidateShadowVolumeClaimStatusUpdate,
	})}
}

// PrepareForCreate completes a new claim.
func (s Strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.generic.PrepareForCreate(ctx, obj)
	if consumer, counts := reserved.Consumer(ctx); counts {
		obj.(*federation.ShadowVolumeClaim).Status.ForeignCluster = consumer
	}
}

// PrepareForUpdate completes a new version of a claim. A claim that requests less than
// before takes as much as before until the provider has given up the larger size, which
// it may be expanding the volume to.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.generic.PrepareForUpdate(ctx, obj, old)
	claim, before := obj.(*federation.ShadowVolumeClaim), old.(*federation.ShadowVolumeClaim)
	if claim.Generation == before.Generation {
		return
	}
	took, takes := storagequota.Takes(before)[corev1.ResourceRequestsStorage], storagequota.Takes(claim)[corev1.ResourceRequestsStorage]
	if took.Cmp(takes) > 0 {
		claim.Status.Allocated = ptr.To(took)
	}
}
