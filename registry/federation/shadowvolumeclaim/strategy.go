// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowvolumeclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/strategy"
)

type base = strategy.Strategy[*federation.ShadowVolumeClaim, federation.ShadowVolumeClaimSpec,
	federation.ShadowVolumeClaimStatus]

// Strategy creates shadow volume claims and updates their spec. A new claim is held until
// its volume is released, and its status names the consumer that it counts against.
type Strategy struct {
	base
}

func newStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// PrepareForCreate completes a new claim.
func (s Strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.base.PrepareForCreate(ctx, obj)
	if consumer, counts := reservation.Consumer(ctx); counts {
		obj.(*federation.ShadowVolumeClaim).Status.ForeignCluster = consumer
	}
}

// PrepareForUpdate completes a new version of a claim. When the request shrinks, the previous
// size stays allocated until the provider has dropped it: the volume may be expanding to it.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.base.PrepareForUpdate(ctx, obj, old)
	updated, before := obj.(*federation.ShadowVolumeClaim), old.(*federation.ShadowVolumeClaim)
	if updated.Generation == before.Generation {
		return
	}
	used := storagequota.Uses(before)[corev1.ResourceRequestsStorage]
	uses := storagequota.Uses(updated)[corev1.ResourceRequestsStorage]
	if used.Cmp(uses) > 0 {
		updated.Status.Allocated = ptr.To(used)
	}
}
