// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
)

// Get returns ClusterInfo local; nil if it does not exist.
func Get(ctx context.Context, reader client.Reader) (*v1alpha1.ClusterInfo, error) {
	info := &v1alpha1.ClusterInfo{}
	if err := reader.Get(ctx, request.NamespacedName, info); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return info, nil
}

// Ranges returns the ranges in ClusterInfo local; none if it does not exist.
func Ranges(ctx context.Context, reader client.Reader) (netmap.Ranges, error) {
	info, err := Get(ctx, reader)
	return netmap.RangesOf(info), err
}

// UsesPodValues reports whether ClusterInfo local has a range of pods that is a value of the chart. It returns
// false until the controller has written new values to ClusterInfo local.
func UsesPodValues(ctx context.Context, reader client.Reader) (bool, error) {
	info := &v1alpha1.ClusterInfo{}
	if err := reader.Get(ctx, request.NamespacedName, info); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(info.Status.Ranges, func(r v1alpha1.ClusterRange) bool {
		return r.Use == v1alpha1.RangeOfPods && r.Source == v1alpha1.SourceValue
	}), nil
}

// RangesChanged selects creations and deletions of a ClusterInfo, and updates that change its ranges.
func RangesChanged() predicate.Predicate {
	return kit.Changed(func(old, current *v1alpha1.ClusterInfo) bool {
		return !slices.Equal(old.Status.Ranges, current.Status.Ranges)
	})
}
