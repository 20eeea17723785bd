// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/storage/provider"
)

func initShadowVolumeClaim(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.VolumeManager(ctx)
	if err != nil {
		return nil, err
	}
	namespaces, nodes := config.KubeInformers.Core().V1().Namespaces(), config.KubeInformers.Core().V1().Nodes()
	reconciler := &provider.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Namespaces: namespaces.Lister(), Nodes: nodes.Lister(),
		Events: config.Recorder(provider.Name), Clock: clock.RealClock{},
	}
	// The listers need their informers to be running.
	namespaces.Informer()
	nodes.Informer()
	return nil, reconciler.SetupWithManager(manager)
}
