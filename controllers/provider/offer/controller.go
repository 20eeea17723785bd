// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offer answers the resource requests of consumers with the offers that the provider's policy
// allows, and selects the nodes on which pods of an offered node run.
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "resource-offer"

const (
	// workers is the number of consumers that are reconciled in parallel.
	workers = 2
	// settle is the delay of a reconcile after a node or the quota usage changed, so that it handles further changes,
	// too.
	settle = time.Second
)

// Reconciler ensures the resource offer to the consumer of each ForeignCluster with an incoming peering,
// and answers the consumer's resource request.
type Reconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Kinds reads which kinds the local API server serves.
	Kinds *kit.ServedKinds
	// ClusterID and ClusterName are the ID and the name of this cluster.
	ClusterID, ClusterName string
	// Policy limits what this cluster offers.
	Policy Policy
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	tenant := handler.EnqueueRequestsFromMapFunc(kit.OfTenantNamespace)
	consumers := kit.EnqueueAfter(settle, kit.RequestsOfAll(r.Client, &v1alpha1.ForeignClusterList{}))
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ResourceRequest{}, tenant).
		Watches(&v1alpha1.ResourceOffer{}, tenant).
		Watches(&v1alpha1.ShadowPod{}, kit.EnqueueAfter(settle, r.consumerOfPod), builder.WithPredicates(podFinished)).
		Watches(&v1alpha1.ShadowVolumeClaim{}, kit.EnqueueAfter(settle, r.consumerOfClaim),
			builder.WithPredicates(kit.Deleted())).
		Watches(&corev1.PersistentVolume{}, kit.EnqueueAfter(settle, r.consumersOfVolumes),
			builder.WithPredicates(volumeReleased)).
		Watches(&storagev1.StorageClass{}, consumers, builder.WithPredicates(kit.CreatedOrDeleted())).
		Watches(&corev1.Node{}, consumers, builder.WithPredicates(kit.Changed(shareChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

func (r *Reconciler) consumerOfPod(ctx context.Context, object client.Object) []reconcile.Request {
	return r.exceeding(ctx, object.(*v1alpha1.ShadowPod).Status.ForeignCluster)
}

func (r *Reconciler) consumerOfClaim(ctx context.Context, object client.Object) []reconcile.Request {
	return r.exceeding(ctx, object.(*v1alpha1.ShadowVolumeClaim).Status.ForeignCluster)
}

// consumersOfVolumes returns requests for all consumers whose usage exceeds the quota: a volume that was taken over has
// no label of its consumer.
func (r *Reconciler) consumersOfVolumes(ctx context.Context, _ client.Object) []reconcile.Request {
	var clusters v1alpha1.ForeignClusterList
	if err := r.Client.List(ctx, &clusters); err != nil {
		return nil
	}
	var all []reconcile.Request
	for i := range clusters.Items {
		all = append(all, r.exceeding(ctx, clusters.Items[i].Name)...)
	}
	return all
}

// exceeding returns the reconcile request of a consumer whose quota usage changed, if its usage exceeds the quota,
// and none otherwise. The answer to any other consumer does not depend on the usage.
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

// podFinished selects deletions of ShadowPods, and updates of finished ShadowPods.
var podFinished = kit.ChangedOrDeleted(func(_, current *v1alpha1.ShadowPod) bool { return current.Status.Phase != "" })

// volumeReleased selects deletions of PersistentVolumes, and updates after which a volume does not count towards the
// quota of a consumer any more.
var volumeReleased = kit.ChangedOrDeleted(func(old, current *corev1.PersistentVolume) bool {
	for key := range volume.Retained("") {
		if old.Labels[key] != "" && old.Labels[key] != current.Labels[key] {
			return true
		}
	}
	return false
})

// shareChanged reports whether an update of a node changes what it contributes to offers. Heartbeats of
// the kubelet do not.
func shareChanged(old, current *corev1.Node) bool {
	return schedulable(old) != schedulable(current) || !maps.Equal(old.Labels, current.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, current.Status.Allocatable)
}
