// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/storage/provider"
)

func initShadowVolumeClaim(ctx context.Context, config *Config) error {
	manager, err := config.VolumeManager(ctx)
	if err != nil {
		return err
	}
	reconciler := &provider.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Events: config.Recorder(provider.Name), Clock: clock.RealClock{},
	}
	return reconciler.SetupWithManager(manager)
}
