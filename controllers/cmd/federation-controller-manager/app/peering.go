// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/consumer/heartbeat"
	consumer "liqo.io/federation/controllers/consumer/peering"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/link/replication"
	"liqo.io/federation/controllers/provider/admission"
	"liqo.io/federation/controllers/provider/fairness"
	"liqo.io/federation/controllers/provider/identitysigner"
	"liqo.io/federation/controllers/provider/invitation"
	"liqo.io/federation/controllers/provider/liveness"
	provider "liqo.io/federation/controllers/provider/peering"
	storage "liqo.io/federation/controllers/storage/consumer"
)

func initForeignCluster(ctx context.Context, config *Config) error {
	shared, err := config.storageConsumer(ctx, foreigncluster.Name)
	if err != nil {
		return err
	}
	manager, options := config.manager, config.Options
	invitations, err := consumer.InvitationCache(manager, options.InvitationNamespace)
	if err != nil {
		return err
	}
	events := config.Recorder(foreigncluster.Name)
	account := types.NamespacedName{Namespace: options.Namespace, Name: options.ServiceAccount}
	outgoing := &consumer.Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Invitations: invitations, Events: events,
		Peers: config.Peers, Volumes: &storage.Unoffloader{Config: shared},
		ClusterID: config.ClusterID, ClusterName: options.ClusterName, IdentityLifetime: options.IdentityLifetime,
		ControlProxy: options.ControlProxy, InvitationNamespace: options.InvitationNamespace, Account: account,
	}
	incoming := &provider.Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: events,
		Mode: identity.Mode(options.IdentityMode), Account: account, InvitationNamespace: options.InvitationNamespace,
	}
	reconciler := &foreigncluster.Reconciler{
		Client: manager.GetClient(), Invitations: invitations, Events: events, Clock: clock.RealClock{}, Peers: config.Peers,
		Networking: v1alpha1.NetworkingMode(options.Networking), Installation: options.installation(),
		Incoming: incoming.Steps(), Outgoing: outgoing.Steps(),
	}
	return reconciler.SetupWithManager(manager)
}

func initIdentityRequest(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &admission.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		ClusterID: config.ClusterID, Mode: identity.Mode(config.Options.IdentityMode),
		Trust: v1alpha1.PeeringTrust(config.Options.Policy.Trust),
	}
	return reconciler.SetupWithManager(manager)
}

func initPeeringToken(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &invitation.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{},
		Namespace: config.Options.InvitationNamespace,
	}
	return reconciler.SetupWithManager(manager)
}

func initIdentitySigner(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &identitysigner.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{},
		Lifetime: config.Options.IdentityLifetime,
	}
	return reconciler.SetupWithManager(manager)
}

func initHeartbeat(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	return (&heartbeat.Reconciler{Peers: config.Peers, Clock: clock.RealClock{}}).SetupWithManager(manager)
}

func initConsumerLiveness(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	reconciler := &liveness.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: config.Recorder(liveness.Name),
		Clock: clock.RealClock{}, OrphanTTL: config.Options.OrphanTTL,
	}
	return reconciler.SetupWithManager(manager)
}

func initPeerFairness(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	return (&fairness.Reconciler{Client: manager.GetClient(), Live: manager.GetAPIReader()}).SetupWithManager(manager)
}

func initReplication(ctx context.Context, config *Config) error {
	manager, err := config.Manager(ctx)
	if err != nil {
		return err
	}
	replicator := &replication.Replicator{
		Client: manager.GetClient(), Peers: config.Peers, ClusterName: config.Options.ClusterName,
	}
	return replicator.SetupWithManager(manager)
}
