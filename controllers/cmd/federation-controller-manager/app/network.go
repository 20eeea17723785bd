// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/gateway"
	"liqo.io/federation/controllers/link/installation"
	"liqo.io/federation/controllers/link/tunnel"
)

// installationCache returns the cache of the installation namespace, which the controllers share. The first call
// creates it.
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

// gatewayFinder returns a Finder that reads the gateway's endpoints from its Service; nil if the gateway has no
// Service.
func (c *Config) gatewayFinder(ctx context.Context) (*gateway.Finder, error) {
	if !c.Options.Network.GatewayService {
		return nil, nil
	}
	installed, err := c.installationCache(ctx)
	if err != nil {
		return nil, err
	}
	return gateway.NewFinder(ctx, c.manager, installed, c.Options.Namespace)
}

// localGateway returns the gateway of the local cluster, which the controllers of tunnels share. The first call creates
// it.
func (c *Config) localGateway(ctx context.Context) (*tunnel.Local, error) {
	if c.local == nil {
		manager, err := c.Manager(ctx)
		if err != nil {
			return nil, err
		}
		finder, err := c.gatewayFinder(ctx)
		if err != nil {
			return nil, err
		}
		c.local = &tunnel.Local{
			Client: manager.GetClient(), Clock: clock.RealClock{}, ClusterID: c.ClusterID, Namespace: c.Options.Namespace,
			Settings: c.Options.Network, PodCIDRs: c.Options.Ranges.PodCIDRs, Finder: finder,
		}
	}
	return c.local, nil
}

func initNetwork(ctx context.Context, config *Config) error {
	installed, err := config.installationCache(ctx)
	if err != nil {
		return err
	}
	local, err := config.localGateway(ctx)
	if err != nil {
		return err
	}
	reconciler := &tunnel.Reconciler{
		Local: local, Live: config.manager.GetAPIReader(), Events: config.Recorder(tunnel.Name),
		Networking: v1alpha1.NetworkingMode(config.Options.Networking),
		Reach:      v1alpha1.ReachMode(config.Options.NetworkReach),
	}
	return reconciler.SetupWithManager(config.manager, installed)
}

func initInvitationGateway(ctx context.Context, config *Config) error {
	installed, err := config.installationCache(ctx)
	if err != nil {
		return err
	}
	local, err := config.localGateway(ctx)
	if err != nil {
		return err
	}
	return (&tunnel.InvitationReconciler{Local: local}).SetupWithManager(config.manager, installed)
}

// initGatewayService adds the controller of the gateway's Service; none if the gateway has no Service.
func initGatewayService(ctx context.Context, config *Config) error {
	finder, err := config.gatewayFinder(ctx)
	if err != nil || finder == nil {
		return err
	}
	reconciler := &gateway.Reconciler{
		Client: config.manager.GetClient(), Finder: finder, Events: config.Recorder(gateway.Name),
		EndpointsConfigured: len(config.Options.Network.Endpoints) > 0,
	}
	return reconciler.SetupWithManager(config.manager, config.installed)
}

// addresses returns the state that the controllers of AddressMappings for single addresses share. The first call
// creates it.
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

func initPodAddresses(ctx context.Context, config *Config) error {
	shared, err := config.addresses(ctx)
	if err != nil {
		return err
	}
	reconciler := &addresses.PodReconciler{
		Addresses: shared, Pods: config.nodePods, Events: config.Recorder(addresses.PodsName),
	}
	return reconciler.SetupWithManager(config.manager)
}

func initEndpointAddresses(ctx context.Context, config *Config) error {
	shared, err := config.addresses(ctx)
	if err != nil {
		return err
	}
	reconciler := &addresses.EndpointReconciler{
		Addresses: shared, Events: config.Recorder(addresses.EndpointsName), Refused: config.Options.refusedEndpointCIDRs(),
	}
	reconciler.Services = watches.NewServices(config.Kube, reconciler.Changes(), reconciler.Complete)
	return reconciler.SetupWithManager(config.manager)
}

func initTunnelReach(ctx context.Context, config *Config) error {
	shared, err := config.addresses(ctx)
	if err != nil {
		return err
	}
	reconciler := &addresses.ReachReconciler{Addresses: shared, Events: config.Recorder(addresses.ReachName)}
	reconciler.Services = watches.NewServices(config.Kube, reconciler.Changes(), reconciler.Complete)
	return reconciler.SetupWithManager(config.manager)
}

func initAPIServerAddress(ctx context.Context, config *Config) error {
	shared, err := config.addresses(ctx)
	if err != nil {
		return err
	}
	reconciler := &addresses.APIServerReconciler{
		Addresses: shared, Address: config.Options.VirtualKubelet.ConsumerAPIServerAddress(),
		Events: config.Recorder(addresses.APIServerName),
	}
	return reconciler.SetupWithManager(config.manager)
}

func initAddressReaders(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &addresses.ReaderReconciler{Client: manager.GetClient(), Namespace: config.Options.Namespace}
	return reconciler.SetupWithManager(manager)
}
