// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/offloading"
	"liqo.io/federation/controllers/shadow"
)

func initNamespaceOffloading(_ context.Context, config *Config) ([]Runner, error) {
	consumer, err := offloading.NewConsumer(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Recorder("namespace-offloading"), config.Options.ClusterName, config.ClusterID)
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
	clusters := config.FederationInformers.Federation().V1alpha1().ForeignClusters().Lister()
	sharedNodes := func(foreignCluster string) map[string]string {
		lending := v1alpha1.PeeringLending{}
		// A consumer that is gone runs nothing new.
		if fc, err := clusters.Get(foreignCluster); err == nil {
			lending = fc.Spec.Lending
		}
		return config.Options.Policy.SharedNodes(&lending)
	}
	controller, err := shadow.New(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Recorder("shadow-pod"), sharedNodes)
	if err != nil {
		return nil, err
	}
	return []Runner{controller.Run}, nil
}

func initShadowEndpointSlice(_ context.Context, config *Config) ([]Runner, error) {
	return running(shadow.NewEndpointSlices(config.Kube, config.Federation, config.KubeInformers, config.FederationInformers,
		config.Options.refusedEndpoints(), clock.RealClock{}))
}
