// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/gateway"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "network"

// workers is the number of ForeignClusters that are reconciled in parallel.
const workers = 4

// Reconciler negotiates the tunnel with the peer of each ForeignCluster.
type Reconciler struct {
	*Local
	// Live reads the API server.
	Live client.Reader
	// Events receives events of ForeignClusters and AddressPools.
	Events record.EventRecorder
	// Networking applies to ForeignClusters that do not set spec.networking.
	Networking v1alpha1.NetworkingMode
	// Reach applies to ForeignClusters that do not set spec.reach. Empty applies the default of their trust.
	Reach v1alpha1.ReachMode

	// life is the observed state of the gateways' Lease. lifeChanged enqueues every ForeignCluster
	// with a tunnel when the Lease expires or is renewed again.
	life        gatewayLife
	lifeChanged kit.Trigger
	// remapAttempts maps the name of a ForeignCluster to the last attempt to remap its ranges, if it
	// failed because the pool was exhausted. externalAttempts maps an IP family to the last failed
	// attempt to allocate an external CIDR.
	remapAttempts, externalAttempts sync.Map
	// pooling is locked while a reconcile writes the AddressPools.
	pooling sync.Mutex
}

// SetupWithManager adds the controller to a manager. installation caches the installation
// namespace.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, installation cache.Cache) error {
	r.setUp(installation)
	watch := func(kind client.Object, requests handler.MapFunc) source.Source {
		return source.Kind(installation, kind, handler.EnqueueRequestsFromMapFunc(requests))
	}
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	controller := ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ResourceRequest{}, handler.EnqueueRequestsFromMapFunc(ofNamespace)).
		Watches(&v1alpha1.NetworkConfig{}, handler.EnqueueRequestsFromMapFunc(ofNamespace)).
		// The status of an AddressPool changes with each AddressMapping, and is not needed here.
		Watches(&v1alpha1.AddressPool{}, handler.EnqueueRequestsFromMapFunc(r.afterPool),
			builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.ClusterInfo{}, all, builder.WithPredicates(clusterinfo.RangesChanged())).
		WatchesRawSource(watch(&v1alpha1.AddressMapping{}, ofRange)).
		WatchesRawSource(watch(&v1alpha1.TunnelEndpoint{}, ofName)).
		WatchesRawSource(watch(&corev1.ConfigMap{}, r.all)).
		WatchesRawSource(watch(&coordinationv1.Lease{}, ofLease)).
		WatchesRawSource(&r.lifeChanged).
		WithOptions(kit.Options(workers))
	if r.Finder != nil {
		for _, source := range gateway.Sources(manager, installation, all) {
			controller = controller.WatchesRawSource(source)
		}
	}
	return controller.Complete(r)
}

// leaseRequest is the request to read the gateways' Lease.
var leaseRequest = kit.Request("leases", v1alpha1.GatewayName)

// ofNamespace maps an object in a peer or tenant namespace to the ForeignCluster of the namespace.
func ofNamespace(_ context.Context, object client.Object) []reconcile.Request {
	return named(naming.ForeignClusterOf(object.GetNamespace()))
}

// ofRange maps the AddressMapping of a peer's range to the peer's ForeignCluster. It ignores the many AddressMappings
// of single addresses, which package link/addresses manages.
func ofRange(_ context.Context, object client.Object) []reconcile.Request {
	if object.GetLabels()[v1alpha1.LabelOrigin] != "" {
		return nil
	}
	return named(object.GetLabels()[v1alpha1.LabelForeignCluster])
}

// ofName maps a TunnelEndpoint to the ForeignCluster of its name.
func ofName(_ context.Context, object client.Object) []reconcile.Request {
	return named(object.GetName())
}

func ofLease(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{leaseRequest}
}

// named returns the request of the ForeignCluster with a name; none if the name is empty.
func named(foreignCluster string) []reconcile.Request {
	if foreignCluster == "" {
		return nil
	}
	return []reconcile.Request{kit.Request("", foreignCluster)}
}

// afterPool returns the requests of all ForeignClusters that require a tunnel after an AddressPool changed, and clears
// the failed attempts to allocate ranges, because the pool may have free ranges now.
func (r *Reconciler) afterPool(ctx context.Context, pool client.Object) []reconcile.Request {
	r.remapAttempts.Clear()
	r.externalAttempts.Clear()
	return r.all(ctx, pool)
}

// all returns the requests of all ForeignClusters whose spec requires a tunnel.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var requests []reconcile.Request
	var clusters v1alpha1.ForeignClusterList
	// Reading from a cache fails only before the cache is synced, which enqueues every object anyway.
	_ = r.Client.List(ctx, &clusters, client.UnsafeDisableDeepCopy)
	for i := range clusters.Items {
		if fc := &clusters.Items[i]; r.mode(fc) == v1alpha1.NetworkingTunnel || inBand(fc) {
			requests = append(requests, kit.Request("", fc.Name))
		}
	}
	return requests
}
