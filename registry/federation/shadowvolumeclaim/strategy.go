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
	"liqo.io/federation/registry/federation/resource"
)

type base = resource.Strategy[*federation.ShadowVolumeClaim, federation.ShadowVolumeClaimSpec,
	federation.ShadowVolumeClaimStatus]

// Strategy is the strategy of ShadowVolumeClaims. In a remote namespace, a new claim gets a status with its consumer.
// Every new claim gets the finalizer of the controllers, which they remove once the provider's claim is deleted, and
// its volume is deleted or retained.
type Strategy struct {
	base
}

func newStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// PrepareForCreate sets the consumer in the status of a new claim in a remote namespace.
func (s Strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.base.PrepareForCreate(ctx, obj)
	if consumer, counts := reservation.Consumer(ctx); counts {
		obj.(*federation.ShadowVolumeClaim).Status.ForeignCluster = consumer
	}
}

// PrepareForUpdate keeps the previous size in status.allocated when the requested size decreases: the volume may be
// expanding to the previous size. A controller of the provider clears status.allocated later.
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
