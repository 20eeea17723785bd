// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "foreign-cluster"

// Peers holds the connections of this cluster to its providers.
type Peers interface {
	// Remove closes the connection to a foreign cluster, if there is one.
	Remove(foreignCluster string)
}

// Reconciler reconciles ForeignClusters with the steps of both directions of a peering.
type Reconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Invitations caches the Secrets with invitations. They are watched because a Secret may be
	// created after the ForeignCluster that names it.
	Invitations cache.Cache
	// Events receives events of ForeignClusters.
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// Peers closes the connection to a cluster whose ForeignCluster was deleted.
	Peers Peers
	// Networking applies to ForeignClusters that do not set spec.networking.
	Networking v1alpha1.NetworkingMode
	// Installation has the values that apply to ForeignClusters that do not set the corresponding fields. They
	// determine status.policies.
	Installation trust.Installation
	// Incoming and Outgoing are the steps of the two directions, in their order. Both lists run in
	// each reconcile, even if a step of the other direction stops or fails.
	Incoming, Outgoing []Step
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	inside := handler.EnqueueRequestsFromMapFunc(ofPeering)
	labelled := handler.EnqueueRequestsFromMapFunc(ofLabel)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		Owns(&v1alpha1.IdentityRequest{}).
		Watches(&v1alpha1.ResourceRequest{}, inside).
		Watches(&v1alpha1.ResourceOffer{}, inside).
		Watches(&v1alpha1.VirtualNode{}, inside, builder.WithPredicates(kit.Changed(kit.VirtualNodeChanged))).
		Watches(&corev1.Namespace{}, labelled).
		Watches(&rbacv1.RoleBinding{}, labelled).
		WatchesRawSource(source.Kind[client.Object](r.Invitations, &corev1.Secret{},
			handler.EnqueueRequestsFromMapFunc(r.invitedBy))).
		WithOptions(kit.Options(kit.PeerWorkers)).
		Complete(r)
}

// ofPeering maps an object in a peer or tenant namespace to the ForeignCluster of the
// namespace.
func ofPeering(ctx context.Context, object client.Object) []reconcile.Request {
	return append(kit.OfPeerNamespace(ctx, object), kit.OfTenantNamespace(ctx, object)...)
}

// ofLabel maps an object to the ForeignCluster that its label LabelForeignCluster names.
func ofLabel(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[v1alpha1.LabelForeignCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{kit.Request("", name)}
}

// invitedBy maps the Secret of an invitation to the ForeignClusters whose spec.invitationSecretName
// is its name.
func (r *Reconciler) invitedBy(ctx context.Context, secret client.Object) []reconcile.Request {
	var all v1alpha1.ForeignClusterList
	// Listing from a cache fails only before the cache is synced, which enqueues every ForeignCluster
	// anyway.
	_ = r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy)
	var requests []reconcile.Request
	for i := range all.Items {
		if all.Items[i].Spec.InvitationSecretName == secret.GetName() {
			requests = append(requests, kit.Request("", all.Items[i].Name))
		}
	}
	return requests
}
