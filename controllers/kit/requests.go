// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/naming"
)

// Request returns the reconcile request of an object. namespace is empty for cluster-scoped kinds.
func Request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// RequestsOfAll returns a function that returns a request for each object of a kind in a cache that the options select,
// whatever the argument of the function. list is an empty list of the kind.
func RequestsOfAll(cached client.Reader, list client.ObjectList, options ...client.ListOption) handler.MapFunc {
	options = append(options, client.UnsafeDisableDeepCopy)
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		all := list.DeepCopyObject().(client.ObjectList)
		// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
		_ = cached.List(ctx, all, options...)
		var requests []reconcile.Request
		// EachListItem fails only for a type that is no list.
		_ = meta.EachListItem(all, func(object runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object.(client.Object))})
			return nil
		})
		return requests
	}
}

// Sooner returns the shorter of two delays of requests, where 0 means that there is no delayed request.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// OfPeerNamespace returns a request for the ForeignCluster of a peer namespace, given the namespace or an object in it.
// It returns none for other objects.
func OfPeerNamespace(_ context.Context, object client.Object) []reconcile.Request {
	return ofNamespace(object, naming.IsPeerNamespace)
}

// OfTenantNamespace returns a request for the ForeignCluster of a tenant namespace, given the namespace or an object in
// it. It returns none for other objects.
func OfTenantNamespace(_ context.Context, object client.Object) []reconcile.Request {
	return ofNamespace(object, naming.IsTenantNamespace)
}

func ofNamespace(object client.Object, belongs func(namespace string) bool) []reconcile.Request {
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = object.GetName()
	}
	if !belongs(namespace) {
		return nil
	}
	return []reconcile.Request{Request("", naming.ForeignClusterOf(namespace))}
}

// EnqueueAfter returns an event handler that enqueues the requests for an object after a delay. Equal requests within
// the delay are merged.
func EnqueueAfter(delay time.Duration, requests handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, object client.Object, queue queue) {
		for _, request := range requests(ctx, object) {
			queue.AddAfter(request, delay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue queue) { add(ctx, e.Object, queue) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue queue) { add(ctx, e.ObjectNew, queue) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue queue) { add(ctx, e.Object, queue) },
	}
}

// Trigger is a source of requests that no cache of the manager causes, for example from a watch of another cluster. It
// belongs to one controller, which watches it with WatchesRawSource. Requests that are added before the controller
// starts are enqueued when it starts. The zero value is ready to use.
type Trigger struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting []reconcile.Request
}

// Start enqueues the requests that were added before the controller started. It implements source.Source.
func (t *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = queue
	for _, request := range t.waiting {
		queue.Add(request)
	}
	t.waiting = nil
	return nil
}

// Add requests a reconcile.
func (t *Trigger) Add(request reconcile.Request) { t.AddAfter(request, 0) }

// AddAfter requests a reconcile after a delay, in which equal requests are merged. Before the controller starts, the
// delay is ignored.
func (t *Trigger) AddAfter(request reconcile.Request, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.waiting = append(t.waiting, request)
		return
	}
	t.queue.AddAfter(request, delay)
}
