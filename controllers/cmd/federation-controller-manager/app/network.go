// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/network"
	"liqo.io/federation/generated/informers/externalversions"
)

// installationInformers see the federation API in the installation namespace.
func (c *Config) installationInformers() externalversions.SharedInformerFactory {
	if c.installation == nil {
		c.installation = c.NewFederationInformers(externalversions.WithNamespace(c.Options.Namespace))
	}
	return c.installation
}

func initNetwork(_ context.Context, config *Config) ([]Runner, error) {
	return running(network.New(&network.Config{
		Kube:                  config.Kube,
		Federation:            config.Federation,
		FederationInformers:   config.FederationInformers,
		InstallationInformers: config.installationInformers(),
		SecretInformers:       config.NewKubeInformers(network.SecretInformers(config.Options.Namespace)...),
		Events:                config.Recorder("network"),
		Clock:                 clock.RealClock{},
		ClusterID:             config.ClusterID,
		Namespace:             config.Options.Namespace,
		Networking:            v1alpha1.NetworkingMode(config.Options.Networking),
		Settings:              config.Options.Network,
	}))
}

func initAddresses(_ context.Context, config *Config) ([]Runner, error) {
	return running(network.NewAddresses(&network.AddressesConfig{
		Kube:                  config.Kube,
		Federation:            config.Federation,
		FederationInformers:   config.FederationInformers,
		InstallationInformers: config.installationInformers(),
		BindingInformers:      config.NewKubeInformers(network.BindingInformers(config.Options.Namespace)...),
		Pods:                  config.nodePods,
		Events:                config.Recorder("addresses"),
		Clock:                 clock.RealClock{},
		Namespace:             config.Options.Namespace,
		ClusterID:             config.ClusterID,
		Home:                  config.Options.VirtualKubelet.HomeAddress(),
	}))
}
