// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/controllers/kit"
)

// Manager returns the manager of the controllers on controller-runtime, which Init
// functions add their reconcilers to. The first call creates it; it starts once this process
// leads.
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

// VolumeManager returns the manager, which caches pods and PersistentVolumes by their
// claims: for controllers of volumes.
func (c *Config) VolumeManager(ctx context.Context) (ctrl.Manager, error) {
	manager, err := c.Manager(ctx)
	if err != nil || c.volumesIndexed {
		return manager, err
	}
	c.volumesIndexed = true
	return manager, kit.IndexVolumes(ctx, manager)
}
