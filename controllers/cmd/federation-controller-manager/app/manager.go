// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/controllers/kit"
)

// Manager returns the manager to which all Init functions add their reconcilers. The first call creates it. Run starts
// it once this process leads.
func (c *Config) Manager(ctx context.Context) (ctrl.Manager, error) {
	if c.manager == nil {
		manager, err := kit.NewManager(c.client, klog.FromContext(ctx))
		if err != nil {
			return nil, err
		}
		c.manager = manager
	}
	return c.manager, nil
}

// VolumeManager returns the manager after adding the indexes of kit.IndexVolumes to its cache, which controllers of
// volumes require.
func (c *Config) VolumeManager(ctx context.Context) (ctrl.Manager, error) {
	manager, err := c.Manager(ctx)
	if err != nil || c.volumesIndexed {
		return manager, err
	}
	c.volumesIndexed = true
	return manager, kit.IndexVolumes(ctx, manager)
}
