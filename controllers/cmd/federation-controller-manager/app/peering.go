// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/consumer/heartbeat"
	"liqo.io/federation/controllers/peering"
	"liqo.io/federation/controllers/provider/admission"
	"liqo.io/federation/controllers/provider/fairness"
	"liqo.io/federation/controllers/provider/identitysigner"
	"liqo.io/federation/controllers/provider/invitation"
	"liqo.io/federation/controllers/provider/liveness"
	"liqo.io/federation/controllers/replication"
	storage "liqo.io/federation/controllers/storage/consumer"
)

// running makes runners of a controller that may not have been made.
func running[C interface{ Run(context.Context) }](controller C, err error) ([]Runner, error) {
	if err != nil {
		return nil, err
	}
	return []Runner{controller.Run}, nil
}

func (c *Config) peering() *peering.Config {
	return &peering.Config{
		Kube:                c.Kube,
		Federation:          c.Federation,
		KubeInformers:       c.KubeInformers,
		ManagedInformers:    c.ManagedInformers,
		FederationInformers: c.FederationInformers,
		Events:              c.Recorder("peering"),
		Peers:               c.Peers,
		Clock:               clock.RealClock{},
		ClusterID:           c.ClusterID,
		ClusterName:         c.Options.ClusterName,
		Namespace:           c.Options.Namespace,
		ServiceAccount:      c.Options.ServiceAccount,
		InvitationNamespace: c.Options.InvitationNamespace,
		IdentityMode:        identity.Mode(c.Options.IdentityMode),
		IdentityLifetime:    c.Options.IdentityLifetime,
		Networking:          v1alpha1.NetworkingMode(c.Options.Networking),
		ControlProxy:        c.Options.ControlProxy,
	}
}

func initForeignCluster(ctx context.Context, config *Config) ([]Runner, error) {
	c := config.peering()
	shared, err := config.storageConsumer(ctx, "peering")
	if err != nil {
		return nil, err
	}
	c.Volumes = storage.NewUnoffloader(shared)
	c.InvitationInformers = config.NewKubeInformers(peering.InvitationInformers(config.Options.Namespace)...)
	return running(peering.NewForeignClusters(c))
}

func initIdentityRequest(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &admission.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		ClusterID: config.ClusterID, Mode: identity.Mode(config.Options.IdentityMode),
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initPeeringToken(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &invitation.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{}, Namespace: config.Options.InvitationNamespace,
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initIdentitySigner(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &identitysigner.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{}, Lifetime: config.Options.IdentityLifetime,
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initHeartbeat(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	return nil, (&heartbeat.Reconciler{Peers: config.Peers, Clock: clock.RealClock{}}).SetupWithManager(manager)
}

func initConsumerLiveness(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	reconciler := &liveness.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: config.Recorder(liveness.Name),
		Clock: clock.RealClock{}, OrphanTTL: config.Options.OrphanTTL,
	}
	return nil, reconciler.SetupWithManager(manager)
}

func initPeerFairness(ctx context.Context, config *Config) ([]Runner, error) {
	manager, err := config.Manager(ctx)
	if err != nil {
		return nil, err
	}
	return nil, (&fairness.Reconciler{Client: manager.GetClient(), Live: manager.GetAPIReader()}).SetupWithManager(manager)
}

func initReplication(_ context.Context, config *Config) ([]Runner, error) {
	return running(replication.New(config.Federation, config.FederationInformers, config.Peers, config.Options.ClusterName))
}
