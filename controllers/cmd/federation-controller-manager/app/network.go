// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/installation"
	"liqo.io/federation/controllers/network"
	"liqo.io/federation/generated/informers/externalversions"
)

// installationCache returns the cache of the installation namespace that the controllers of
// links share; the first call creates it.
func (c *Config) installationCache(ctx context.Context) (cache.Cache, error) {
	if c.installed == nil {
		manager, err := c.Manager(ctx)
		if err != nil {
			return nil, err
		}
		if c.installed, err = installation.NewCache(manager, c.Options.Namespace); err != nil {
			return nil, err
		}
	}
	return c.installed, nil
}

// installationInformers see the federation API in the installation namespace.
func (c *Config) installationInformers() externalversions.SharedInformerFactory {
	if c.installation == nil {
		c.installation = c.NewFederationInformers(externalversions.WithNamespace(c.Options.Namespace))
	}
	return c.installation
}

// gatewayInformers see what leads to the gateway; nil where no Service does.
func (c *Config) gatewayInformers() *network.GatewayInformers {
	if c.gateways == nil && c.Options.Network.GatewayService {
		c.gateways = &network.GatewayInformers{
			Named: c.gatewayNames(),
			Pods:  c.NewKubeInformers(network.GatewayPods(c.Options.Namespace)...),
			Nodes: c.KubeInformers,
		}
	}
	return c.gateways
}

// gatewayNames see what has the gateway's name.
func (c *Config) gatewayNames() kubeinformers.SharedInformerFactory {
	if c.gatewayNamed == nil {
		c.gatewayNamed = c.NewKubeInformers(network.GatewayNames(c.Options.Namespace)...)
	}
	return c.gatewayNamed
}

func (c *Config) network(controller string) *network.Config {
	n := &network.Config{
		Kube:                  c.Kube,
		Federation:            c.Federation,
		FederationInformers:   c.FederationInformers,
		InstallationInformers: c.installationInformers(),
		LeaseInformers:        c.gatewayNames(),
		SecretInformers:       c.NewKubeInformers(network.SecretInformers(c.Options.Namespace)...),
		Gateways:              c.gatewayInformers(),
		Events:                c.Recorder(controller),
		Clock:                 clock.RealClock{},
		ClusterID:             c.ClusterID,
		Namespace:             c.Options.Namespace,
		Networking:            v1alpha1.NetworkingMode(c.Options.Networking),
		Settings:              c.Options.Network,
	}
	return n
}

func initNetwork(_ context.Context, config *Config) ([]Runner, error) {
	c := config.network("network")
	runners, err := running(network.New(c))
	if err != nil {
		return nil, err
	}
	more, err := running(network.NewInvitations(c))
	return append(runners, more...), err
}

// initGatewayService runs nothing where no Service leads to the gateway.
func initGatewayService(_ context.Context, config *Config) ([]Runner, error) {
	if !config.Options.Network.GatewayService {
		return nil, nil
	}
	return running(network.NewGatewayService(config.network("gateway-service")))
}

// addresses returns what the controllers of single addresses share; the first call creates it.
func (c *Config) addresses(ctx context.Context) (*addresses.Addresses, error) {
	if c.singles != nil {
		return c.singles, nil
	}
	installed, err := c.installationCache(ctx)
	if err != nil {
		return nil, err
	}
	if err := addresses.Index(ctx, installed); err != nil {
		return nil, err
	}
	c.singles = &addresses.Addresses{
		Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(), Installation: installed,
		Clock: clock.RealClock{}, Namespace: c.Options.Namespace, ClusterID: c.ClusterID,
	}
	return c.singles, nil
}

func initPodAddresses(ctx context.Context, config *Config) ([]Runner, error) {
	shared, err := config.addresses(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &addresses.PodReconciler{
		Addresses: shared, Pods: config.nodePods, Events: config.Recorder(addresses.PodsName),
	}
	return nil, reconciler.SetupWithManager(config.manager)
}

func initEndpointAddresses(ctx context.Context, config *Config) ([]Runner, error) {
	shared, err := config.addresses(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &addresses.EndpointReconciler{Addresses: shared, Events: config.Recorder(addresses.EndpointsName)}
	reconciler.Services = watches.NewServices(config.Kube, reconciler.Changes(), reconciler.Complete)
	return nil, reconciler.SetupWithManager(config.manager)
}

func initAPIServerAddress(ctx context.Context, config *Config) ([]Runner, error) {
	shared, err := config.addresses(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &addresses.APIServerReconciler{
		Addresses: shared, Address: config.Options.VirtualKubelet.HomeAddress(),
		Events: config.Recorder(addresses.APIServerName),
	}
	return nil, reconciler.SetupWithManager(config.manager)
}

func initAddressReaders(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &addresses.ReaderReconciler{Client: manager.GetClient(), Namespace: config.Options.Namespace}
	return nil, reconciler.SetupWithManager(manager)
}
