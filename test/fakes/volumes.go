// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fakes

import (
	"context"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// NoVolumes are the volumes of a consumer that stores no data on providers, for the
// controllers of peerings.
type NoVolumes struct{}

// StoredBy returns none.
func (NoVolumes) StoredBy(context.Context, *v1alpha1.ForeignCluster) ([]v1alpha1.PlannedVolume, error) {
	return nil, nil
}

// ReleaseAll has none to release.
func (NoVolumes) ReleaseAll(context.Context, *v1alpha1.ForeignCluster, v1alpha1.UnoffloadPolicy) error {
	return nil
}

// Obstacles returns none.
func (NoVolumes) Obstacles(string, string) []string { return nil }
