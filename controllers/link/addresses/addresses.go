// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Addresses has the clients and the state that the controllers of this package share.
type Addresses struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Installation caches the AddressMappings, TunnelEndpoints and TunnelReaches in the installation namespace.
	// Index must have been called with it.
	Installation cache.Cache
	Clock        clock.PassiveClock
	// Namespace is the namespace of the installation.
	Namespace string
	// ClusterID is the ID of this cluster.
	ClusterID string

	mu sync.Mutex
	// exhausted maps an IP family, true for IPv4 and false for IPv6, to AddressPool external as it was when no
	// address of that family was free.
	exhausted map[bool]exhaustion
	// reported maps a NamespaceOffloading or ForeignCluster to the reason of its last event about a missing
	// address.
	reported map[types.NamespacedName]string
}

// exhaustion is a pool as it was when it had no free address, and the time before which no address is requested from
// it, unless its UID or spec changes.
type exhaustion struct {
	pool  *v1alpha1.AddressPool
	until time.Time
}

const (
	// indexOrigin is the index of AddressMappings of single addresses by origin, the object for which they were
	// created.
	indexOrigin = "origin"
	// indexPeer is the index of AddressMappings of single addresses by the name of the ForeignCluster of the
	// peer that reaches the address.
	indexPeer = "peer"
)

// Index adds indexOrigin and indexPeer to a cache of AddressMappings. It must be called once per cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.AddressMapping{}, indexOrigin, originValue); err != nil {
		return fmt.Errorf("indexing address mappings by their origins: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.AddressMapping{}, indexPeer, peerValue); err != nil {
		return fmt.Errorf("indexing address mappings by their peers: %w", err)
	}
	return nil
}

func originValue(object client.Object) []string {
	if mapping, ok := object.(*v1alpha1.AddressMapping); ok && isSingle(mapping) {
		return []string{originOf(mapping).String()}
	}
	return nil
}

func peerValue(object client.Object) []string {
	if mapping, ok := object.(*v1alpha1.AddressMapping); ok && isSingle(mapping) {
		return []string{mapping.Labels[v1alpha1.LabelForeignCluster]}
	}
	return nil
}

// mappings returns the cached AddressMappings that options select. The caller must not change them.
func (a *Addresses) mappings(ctx context.Context, options ...client.ListOption) ([]v1alpha1.AddressMapping, error) {
	var all v1alpha1.AddressMappingList
	options = append(options, client.InNamespace(a.Namespace), client.UnsafeDisableDeepCopy)
	if err := a.Installation.List(ctx, &all, options...); err != nil {
		return nil, fmt.Errorf("listing address mappings: %w", err)
	}
	return all.Items, nil
}

// mappingsOf returns the AddressMappings that were created for an origin.
func (a *Addresses) mappingsOf(ctx context.Context, of origin) ([]v1alpha1.AddressMapping, error) {
	return a.mappings(ctx, client.MatchingFields{indexOrigin: of.String()})
}

// mapped returns a request for each origin of a kind that has an AddressMapping which the list options select.
func (a *Addresses) mapped(ctx context.Context, kind kind, options ...client.ListOption) []reconcile.Request {
	// Listing from a cache fails only before the cache is synced, which causes an event for each mapping anyway.
	all, _ := a.mappings(ctx, options...)
	return requestsOf(kind, all)
}

// virtualNodes returns the cached VirtualNodes that options select. The caller must not change them.
func (a *Addresses) virtualNodes(ctx context.Context, options ...client.ListOption) ([]v1alpha1.VirtualNode, error) {
	var all v1alpha1.VirtualNodeList
	if err := a.Client.List(ctx, &all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	return all.Items, nil
}

// maps returns the cached NamespaceMaps in peer namespaces that options select. The caller must not change
// them.
func (a *Addresses) maps(ctx context.Context, options ...client.ListOption) ([]v1alpha1.NamespaceMap, error) {
	var all v1alpha1.NamespaceMapList
	if err := a.Client.List(ctx, &all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing namespace maps: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(m v1alpha1.NamespaceMap) bool {
		return !naming.IsPeerNamespace(m.Namespace)
	}), nil
}

// offloaded returns the names of the local namespaces in the NamespaceMaps of providers that match options.
func (a *Addresses) offloaded(ctx context.Context, options ...client.ListOption) sets.Set[string] {
	names := sets.New[string]()
	// Listing from a cache fails only before the cache is synced, which causes an event for each map anyway.
	all, _ := a.maps(ctx, options...)
	for i := range all {
		names = names.Union(namesOf(&all[i]))
	}
	return names
}

// namesOf returns the local namespaces in the NamespaceMap of a provider; none for any other object.
func namesOf(object client.Object) sets.Set[string] {
	names := sets.New[string]()
	if m, ok := object.(*v1alpha1.NamespaceMap); ok && naming.IsPeerNamespace(m.Namespace) {
		for _, namespace := range m.Spec.Namespaces {
			names.Insert(namespace.Name)
		}
	}
	return names
}

// offloads reports whether a NamespaceMap has an entry for a local namespace.
func offloads(m *v1alpha1.NamespaceMap, namespace string) bool {
	return slices.ContainsFunc(m.Spec.Namespaces, func(mapping v1alpha1.NamespaceMapping) bool {
		return mapping.Name == namespace
	})
}

// tunnel returns the TunnelEndpoint of a ForeignCluster; nil if the TunnelEndpoint does not exist, is being deleted,
// or has no ranges because the tunnel carries only the control plane.
func (a *Addresses) tunnel(ctx context.Context, foreignCluster string) (*v1alpha1.TunnelEndpoint, error) {
	tunnel := &v1alpha1.TunnelEndpoint{}
	err := a.Installation.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: foreignCluster}, tunnel)
	if apierrors.IsNotFound(err) || err == nil && (tunnel.DeletionTimestamp != nil || len(tunnel.Spec.Remote) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading tunnel endpoint %s: %w", foreignCluster, err)
	}
	return tunnel, nil
}

// tunnels returns the cached TunnelEndpoints. The caller must not change them.
func (a *Addresses) tunnels(ctx context.Context) ([]v1alpha1.TunnelEndpoint, error) {
	var all v1alpha1.TunnelEndpointList
	if err := a.Installation.List(ctx, &all, client.InNamespace(a.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing tunnel endpoints: %w", err)
	}
	return all.Items, nil
}

// peer is a ForeignCluster with a tunnel.
type peer struct{ name, clusterID string }

// isExternal selects AddressPool external.
var isExternal = predicate.NewPredicateFuncs(func(object client.Object) bool {
	return object.GetName() == v1alpha1.ExternalAddressPool
})

// queue is the queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// inNamespaces is a controller that returns the requests to enqueue when namespaces are offloaded or
// unoffloaded.
type inNamespaces interface {
	inNamespaces(ctx context.Context, names sets.Set[string]) []reconcile.Request
}

// ofNamespaceMap returns a handler that enqueues the requests of a controller for the namespaces that a
// NamespaceMap gains or loses.
func ofNamespaceMap(of inNamespaces) handler.EventHandler {
	add := func(ctx context.Context, names sets.Set[string], queue queue) {
		for _, request := range of.inNamespaces(ctx, names) {
			queue.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue queue) { add(ctx, namesOf(e.Object), queue) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue queue) {
			add(ctx, namesOf(e.ObjectOld).SymmetricDifference(namesOf(e.ObjectNew)), queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue queue) { add(ctx, namesOf(e.Object), queue) },
	}
}

// forgetOwner returns a handler that calls forget for each deleted object, so that a new object of the same name gets
// events.
func (a *Addresses) forgetOwner() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
		a.forget(client.ObjectKeyFromObject(e.Object))
	}}
}

// requestsTo returns the requests of cluster-scoped objects with these names.
func requestsTo(names sets.Set[string]) []reconcile.Request {
	var requests []reconcile.Request
	for name := range names {
		requests = append(requests, kit.Request("", name))
	}
	return requests
}
