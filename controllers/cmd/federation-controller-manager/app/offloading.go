// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/serviceexport"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/provider/endpointslice"
	"liqo.io/federation/controllers/provider/namespace"
	"liqo.io/federation/controllers/provider/shadowpod"
	storage "liqo.io/federation/controllers/storage/consumer"
)

// offloadingConfig returns the configuration that the consumer's controllers of offloaded namespaces share. The first
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
		Pods: watches.PodsOfNamespaces(c.Kube), Volumes: &storage.Unoffloader{Config: shared},
	}
	return c.offloading, nil
}

func initNamespaceOffloading(ctx context.Context, config *Config) error {
	shared, err := config.offloadingConfig(ctx)
	if err != nil {
		return err
	}
	reconciler := &offloading.Reconciler{Config: shared, Events: config.Recorder(offloading.Name)}
	return reconciler.SetupWithManager(config.manager)
}

func initNamespaceMap(ctx context.Context, config *Config) error {
	shared, err := config.offloadingConfig(ctx)
	if err != nil {
		return err
	}
	return (&offloading.MapReconciler{Config: shared}).SetupWithManager(config.manager)
}

func initRemoteNamespace(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &namespace.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Events: config.Recorder(namespace.Name), Clock: clock.RealClock{},
		ClusterID: config.ClusterID,
		Reserved:  []string{config.Options.Namespace, config.Options.InvitationNamespace},
		Names:     config.Options.Policy.RemoteNamespaces, ExternalNames: config.Options.Policy.ExternalNames,
		Objects: config.Options.Policy.ObjectLimits(), Reflected: config.Options.Policy.Kinds(),
		MaxObjectBytes: config.Options.Policy.MaxObjectBytes, Pods: config.Options.Policy.PodFlags,
		MaxNamespaces: config.Options.Policy.MaxRemoteNamespaces,
		Network: namespace.Network{
			Access:      v1alpha1.NetworkAccess(config.Options.Policy.NetworkAccess),
			IngressFrom: config.Options.Policy.NetworkIngressFrom,
			DNS:         config.Options.Policy.DNS(),
			Refused:     config.Options.refusedEndpointCIDRs(),
			Namespace:   config.Options.Namespace,
		},
		Account: types.NamespacedName{Namespace: config.Options.Namespace, Name: config.Options.ServiceAccount},
	}
	return reconciler.SetupWithManager(manager)
}

func initShadowPod(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	nodes, err := shadowpod.NewNodes(manager, &config.Options.Policy)
	if err != nil {
		return err
	}
	reconciler := &shadowpod.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Placer: nodes,
		Events: config.Recorder(shadowpod.Name), Clock: clock.RealClock{},
	}
	return reconciler.SetupWithManager(manager)
}

func initShadowEndpointSlice(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &endpointslice.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{},
		Network: endpointslice.Network{
			Refused:    config.Options.refusedEndpointCIDRs(),
			Networking: v1alpha1.NetworkingMode(config.Options.Networking),
			Namespace:  config.Options.Namespace,
		},
	}
	return reconciler.SetupWithManager(manager)
}

func initServiceExport(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &serviceexport.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Kube: config.Kube,
		Events: config.Recorder(serviceexport.Name),
		Served: mcs.NewServed(config.Kube.Discovery(), clock.RealClock{},
			mcsv1alpha1.ServiceExportPluralName, mcsv1alpha1.ServiceImportPluralName),
		ClusterName: config.Options.ClusterName,
		Account:     types.NamespacedName{Namespace: config.Options.Namespace, Name: config.Options.ServiceAccount},
	}
	return reconciler.SetupWithManager(manager)
}
