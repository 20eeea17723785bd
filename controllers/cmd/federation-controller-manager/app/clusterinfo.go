// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/link/clusterinfo"
)

func initClusterInfo(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	installed, err := config.installationCache(ctx)
	if err != nil {
		return err
	}
	options, namespace := config.Options, config.Options.Namespace
	values := options.Ranges
	values.ExternalCIDRs = options.Network.External()
	reconciler := &clusterinfo.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Cluster: clusterinfo.Cluster{
			ID: config.ClusterID, Name: options.ClusterName, Labels: options.Policy.ClusterLabels, Namespace: namespace,
			Endpoints: options.Network.Endpoints,
		},
		Values: values, Events: config.Recorder(clusterinfo.Name), Clock: clock.RealClock{},
	}
	if finder, err := config.gatewayFinder(ctx); err != nil {
		return err
	} else if finder != nil {
		reconciler.Gateway = finder
	}
	return reconciler.SetupWithManager(manager, installed)
}
