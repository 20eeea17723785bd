// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	mcs "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/multicluster"
	"liqo.io/federation/controllers/pods"
	"liqo.io/federation/controllers/provider/namespace"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/controllers/shadow"
	storage "liqo.io/federation/controllers/storage/consumer"
)

// offloadingConfig returns what the controllers of offloading on a consumer share; the first
// call creates it.
func (c *Config) offloadingConfig(ctx context.Context) (*offloading.Config, error) {
	if c.offloading != nil {
		return c.offloading, nil
	}
	shared, err := c.storageConsumer(ctx, offloading.Name)
	if err != nil {
		return nil, err
	}
	c.offloading = &offloading.Config{
		Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(), Clock: clock.RealClock{},
		ClusterName: c.Options.ClusterName, ClusterID: c.ClusterID,
		Pods: pods.OfNamespaces(c.Kube), Volumes: storage.NewUnoffloader(shared),
	}
	return c.offloading, nil
}

func initNamespaceOffloading(ctx context.Context, config *Config) ([]Runner, error) {
	shared, err := config.offloadingConfig(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &offloading.Reconciler{Config: shared, Events: config.Recorder(offloading.Name)}
	return nil, reconciler.SetupWithManager(config.manager)
}

func initNamespaceMap(ctx context.Context, config *Config) ([]Runner, error) {
	shared, err := config.offloadingConfig(ctx)
	if err != nil {
		return nil, err
	}
	return nil, (&offloading.MapReconciler{Config: shared}).SetupWithManager(config.manager)
}

func initRemoteNamespace(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &namespace.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Events: config.Recorder(namespace.Name), Clock: clock.RealClock{},
		ClusterID: config.ClusterID,
		Reserved:  []string{config.Options.Namespace, config.Options.InvitationNamespace},
		Account:   types.NamespacedName{Namespace: config.Options.Namespace, Name: config.Options.ServiceAccount},
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initShadowPod(_ context.Context, config *Config) ([]Runner, error) {
	clusters := config.FederationInformers.Federation().V1alpha1().ForeignClusters().Lister()
	offers := config.FederationInformers.Federation().V1alpha1().ResourceOffers().Lister()
	nodes := config.KubeInformers.Core().V1().Nodes().Lister()
	placement := func(foreignCluster, offeredNode string) shadow.Placement {
		fc, err := clusters.Get(foreignCluster)
		if err != nil {
			// A consumer that is gone runs nothing new.
			fc = &v1alpha1.ForeignCluster{}
		}
		shared := config.Options.Policy.SharedNodes(&fc.Spec.Lending)
		if offeredNode == "" {
			return shadow.Placement{Labels: shared}
		}
		// Listing a cache fails only with a selector that cannot be read.
		all, _ := nodes.List(labels.Everything())
		offered, _ := offers.ResourceOffers(naming.TenantNamespace(foreignCluster)).List(labels.Everything())
		wanted, node := offer.Place(all, offered, shared, fc.Spec.ClusterID, offeredNode)
		return shadow.Placement{Labels: wanted, Node: node}
	}
	controller, err := shadow.New(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Recorder("shadow-pod"), placement)
	if err != nil {
		return nil, err
	}
	return []Runner{controller.Run}, nil
}

func initShadowEndpointSlice(_ context.Context, config *Config) ([]Runner, error) {
	return running(shadow.NewEndpointSlices(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		shadow.Network{
			Refused:    config.Options.refusedEndpoints(),
			Networking: v1alpha1.NetworkingMode(config.Options.Networking),
			Tunnels:    config.installationInformers().Federation().V1alpha1().TunnelEndpoints(),
			Namespace:  config.Options.Namespace,
		}, clock.RealClock{}))
}

func initServiceExport(_ context.Context, config *Config) ([]Runner, error) {
	client, err := mcs.NewForConfig(config.client)
	if err != nil {
		return nil, fmt.Errorf("make a client of the Multi-Cluster Services API: %w", err)
	}
	return running(multicluster.New(config.Kube, client, config.KubeInformers, config.FederationInformers, config.Recorder("service-export"),
		multicluster.Installation{
			ClusterName:      config.Options.ClusterName,
			Account:          config.Options.ServiceAccount,
			AccountNamespace: config.Options.Namespace,
		}, clock.RealClock{}))
}
