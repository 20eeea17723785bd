// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fakes

import (
	"context"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// NoVolumes implements the interface by which controllers of peerings access volumes, for a consumer whose providers
// store no data.
type NoVolumes struct{}

// StoredBy returns no volumes.
func (NoVolumes) StoredBy(context.Context, *v1alpha1.ForeignCluster) ([]v1alpha1.PlannedVolume, error) {
	return nil, nil
}

// ReleaseAll does nothing.
func (NoVolumes) ReleaseAll(context.Context, *v1alpha1.ForeignCluster, v1alpha1.UnoffloadPolicy) error {
	return nil
}

// Obstacles returns no obstacles.
func (NoVolumes) Obstacles(string, string) []string { return nil }
