// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/shadowpod"
)

// attributed says in the status of a new shadow pod whose it is: labels of
// namespaces can change, and what was reserved must be given back where it was
// taken.
type attributed struct {
	shadowpod.Strategy
}

// PrepareForCreate completes a new shadow pod.
func (s attributed) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	if consumer, ok := ctx.Value(consumerKey{}).(string); ok {
		obj.(*federation.ShadowPod).Status.ForeignCluster = consumer
	}
}
