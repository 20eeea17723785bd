// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/consumer/request"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/controllers/resources"
)

func (c *Config) resources() *resources.Config {
	if c.shared == nil {
		c.shared = &resources.Config{
			Kube:                  c.Kube,
			Federation:            c.Federation,
			KubeInformers:         c.KubeInformers,
			ManagedInformers:      c.ManagedInformers,
			FederationInformers:   c.FederationInformers,
			InstallationInformers: c.installationInformers(),
			Namespace:             c.Options.Namespace,
			Networking:            v1alpha1.NetworkingMode(c.Options.Networking),
			Clock:                 clock.RealClock{},
			Pods:                  c.nodePods,
			ClusterID:             c.ClusterID,
			ClusterName:           c.Options.ClusterName,
			Namespaces:            []string{c.Options.Namespace, c.Options.InvitationNamespace},
			Kinds:                 c.servedKinds(),
			VirtualKubelet:        c.Options.VirtualKubelet,
		}
	}
	return c.shared
}

// servedKinds returns the kinds that this cluster serves, which controllers share; the
// first call creates it.
func (c *Config) servedKinds() *kit.ServedKinds {
	if c.kinds == nil {
		c.kinds = kit.NewServedKinds(c.Kube.Discovery(), clock.RealClock{})
	}
	return c.kinds
}

func initResourceOffer(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &offer.Reconciler{
		Client: manager.GetClient(), Kinds: config.servedKinds(),
		ClusterID: config.ClusterID, ClusterName: config.Options.ClusterName, Policy: config.Options.Policy,
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initResourceRequest(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &request.Reconciler{
		Client: manager.GetClient(), ClusterName: config.Options.ClusterName, AutoAccept: config.Options.Policy.AutoAccept,
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initVirtualNode(_ context.Context, config *Config) ([]Runner, error) {
	return running(resources.NewVirtualNodes(config.resources()))
}
