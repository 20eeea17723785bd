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
	c := config.network()
	runners, err := running(network.New(c))
	if err != nil {
		return nil, err
	}
	more, err := running(network.NewInvitations(c))
	return append(runners, more...), err
}

func (c *Config) network() *network.Config {
	return &network.Config{
		Kube:                  c.Kube,
		Federation:            c.Federation,
		FederationInformers:   c.FederationInformers,
		InstallationInformers: c.installationInformers(),
		SecretInformers:       c.NewKubeInformers(network.SecretInformers(c.Options.Namespace)...),
		Events:                c.Recorder("network"),
		Clock:                 clock.RealClock{},
		ClusterID:             c.ClusterID,
		Namespace:             c.Options.Namespace,
		Networking:            v1alpha1.NetworkingMode(c.Options.Networking),
		Settings:              c.Options.Network,
	}
}
