// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/consumer/request"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/provider/offer"
)

// servedKinds returns the cache of the kinds that the local cluster serves, which the controllers share. The first call
// creates it.
func (c *Config) servedKinds() *kit.ServedKinds {
	if c.kinds == nil {
		c.kinds = kit.NewServedKinds(c.Kube.Discovery(), clock.RealClock{})
	}
	return c.kinds
}

func initResourceOffer(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &offer.Reconciler{
		Client: manager.GetClient(), Kinds: config.servedKinds(),
		ClusterID: config.ClusterID, ClusterName: config.Options.ClusterName, Policy: config.Options.Policy,
	}
	return reconciler.SetupWithManager(manager)
}

func initResourceRequest(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &request.Reconciler{
		Client: manager.GetClient(), ClusterName: config.Options.ClusterName, AutoAccept: config.Options.Policy.AutoAccept,
	}
	return reconciler.SetupWithManager(manager)
}

func initVirtualNode(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &virtualnode.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Pods: config.nodePods, Kinds: config.servedKinds(),
		Clock: clock.RealClock{}, ClusterID: config.ClusterID, ClusterName: config.Options.ClusterName,
		Namespace:            config.Options.Namespace,
		Reserved:             []string{config.Options.Namespace, config.Options.InvitationNamespace},
		Networking:           v1alpha1.NetworkingMode(config.Options.Networking),
		APIAccess:            v1alpha1.APIAccess(config.Options.APIAccess),
		RefusedEndpointCIDRs: config.Options.RefusedEndpointCIDRs,
		VirtualKubelet:       config.Options.VirtualKubelet,
	}
	return reconciler.SetupWithManager(manager)
}
