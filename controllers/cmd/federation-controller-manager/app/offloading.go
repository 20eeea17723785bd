// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"liqo.io/federation/controllers/offloading"
	"liqo.io/federation/controllers/shadow"
)

func initNamespaceOffloading(_ context.Context, config *Config) ([]Runner, error) {
	consumer, err := offloading.NewConsumer(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Options.ClusterName, config.ClusterID)
	if err != nil {
		return nil, err
	}
	return []Runner{consumer.Run}, nil
}

func initTwinNamespace(_ context.Context, config *Config) ([]Runner, error) {
	provider, err := offloading.NewProvider(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Recorder("twin-namespace"), offloading.Installation{
			ClusterID:        config.ClusterID,
			Namespaces:       []string{config.Options.Namespace, config.Options.InvitationNamespace},
			Account:          config.Options.ServiceAccount,
			AccountNamespace: config.Options.Namespace,
		})
	if err != nil {
		return nil, err
	}
	return []Runner{provider.Run}, nil
}

func initShadowPod(_ context.Context, config *Config) ([]Runner, error) {
	controller, err := shadow.New(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Recorder("shadow-pod"))
	if err != nil {
		return nil, err
	}
	return []Runner{controller.Run}, nil
}
