// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/storage/move"
)

func initVolumeMove(ctx context.Context, config *Config) error {
	manager, err := config.VolumeManager(ctx)
	if err != nil {
		return err
	}
	reconciler := &move.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: config.Recorder(move.Name), Peers: config.Peers,
		Logs: move.Logs(config.Kube), Mover: config.Options.Mover,
		Account: config.Options.ServiceAccount, AccountNamespace: config.Options.Namespace,
		Clock: clock.RealClock{},
	}
	return reconciler.SetupWithManager(manager)
}
