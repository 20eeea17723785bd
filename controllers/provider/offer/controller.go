// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offer answers the resource requests of consumers with the offers that the
// provider's policy allows, and places the pods of offered nodes.
package offer

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "resource-offer"

const (
	// workers is how many consumers are answered at a time.
	workers = 2
	// settle is the time in which changes of nodes and of usage are collected for one pass.
	settle = time.Second
)

// Reconciler keeps the offer for each ForeignCluster with an incoming peering, and answers
// its resource request.
type Reconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Kinds finds the kinds that this cluster serves.
	Kinds *kit.ServedKinds
	// ClusterID and ClusterName are those of this cluster.
	ClusterID, ClusterName string
	// Policy limits what this cluster offers.
	Policy Policy
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	tenant := handler.EnqueueRequestsFromMapFunc(kit.OfTenantNamespace)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ResourceRequest{}, tenant).
		Watches(&v1alpha1.ResourceOffer{}, tenant).
		Watches(&v1alpha1.ShadowPod{}, kit.EnqueueAfter(settle, r.consumerOfPod), builder.WithPredicates(podFinished)).
		Watches(&v1alpha1.ShadowVolumeClaim{}, kit.EnqueueAfter(settle, r.consumerOfClaim), builder.WithPredicates(deleted)).
		Watches(&storagev1.StorageClass{}, kit.EnqueueAfter(settle, r.consumers),
			builder.WithPredicates(kit.Changed(neverChanged))).
		Watches(&corev1.Node{}, kit.EnqueueAfter(settle, r.consumers), builder.WithPredicates(kit.Changed(shareChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// consumers returns every ForeignCluster.
func (r *Reconciler) consumers(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1alpha1.ForeignClusterList
	// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
	_ = r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy)
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, kit.Request("", all.Items[i].Name))
	}
	return requests
}

func (r *Reconciler) consumerOfPod(ctx context.Context, object client.Object) []reconcile.Request {
	return r.exceeding(ctx, object.(*v1alpha1.ShadowPod).Status.ForeignCluster)
}

func (r *Reconciler) consumerOfClaim(ctx context.Context, object client.Object) []reconcile.Request {
	return r.exceeding(ctx, object.(*v1alpha1.ShadowVolumeClaim).Status.ForeignCluster)
}

// exceeding returns a consumer while it uses more than it is granted: a release of quota
// changes the answer to no other.
func (r *Reconciler) exceeding(ctx context.Context, consumer string) []reconcile.Request {
	if consumer == "" {
		return nil
	}
	var requests v1alpha1.ResourceRequestList
	if err := r.Client.List(ctx, &requests, client.InNamespace(naming.TenantNamespace(consumer))); err != nil {
		return nil
	}
	if !slices.ContainsFunc(requests.Items, func(request v1alpha1.ResourceRequest) bool {
		return meta.IsStatusConditionFalse(request.Status.Conditions, v1alpha1.ConditionWithinQuota)
	}) {
		return nil
	}
	return []reconcile.Request{kit.Request("", consumer)}
}

// deleted selects deletions.
var deleted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// podFinished selects deletions of ShadowPods and updates of those that are finished.
var podFinished = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(update event.UpdateEvent) bool { return update.ObjectNew.(*v1alpha1.ShadowPod).Status.Phase != "" },
}

// neverChanged reports no change: of a storage class only its existence matters.
func neverChanged(_, _ *storagev1.StorageClass) bool { return false }

// shareChanged reports whether a node has another share in offers than before. Heartbeats
// do not change it.
func shareChanged(old, current *corev1.Node) bool {
	return schedulable(old) != schedulable(current) || !maps.Equal(old.Labels, current.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, current.Status.Allocatable)
}
