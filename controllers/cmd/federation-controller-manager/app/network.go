// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
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

func initAddresses(_ context.Context, config *Config) ([]Runner, error) {
	return running(network.NewAddresses(&network.AddressesConfig{
		Kube:                  config.Kube,
		Federation:            config.Federation,
		FederationInformers:   config.FederationInformers,
		InstallationInformers: config.installationInformers(),
		BindingInformers:      config.NewKubeInformers(network.BindingInformers(config.Options.Namespace)...),
		KubeInformers:         config.KubeInformers,
		Pods:                  config.nodePods,
		Events:                config.Recorder("addresses"),
		Clock:                 clock.RealClock{},
		Namespace:             config.Options.Namespace,
		ClusterID:             config.ClusterID,
		Home:                  config.Options.VirtualKubelet.HomeAddress(),
	}))
}
