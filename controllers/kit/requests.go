// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/naming"
)

// Request returns the request to reconcile an object of a namespace, which is empty for
// kinds that have none.
func Request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// OfPeerNamespace maps an object in a peer namespace, or the namespace itself, to the
// ForeignCluster of the namespace.
func OfPeerNamespace(_ context.Context, object client.Object) []reconcile.Request {
	return ofNamespace(object, naming.IsPeerNamespace)
}

// OfTenantNamespace maps an object in a tenant namespace, or the namespace itself, to the
// ForeignCluster of the namespace.
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

// EnqueueAfter returns a handler of the requests that a function maps an object to, after a delay in
// which requests for one key are merged.
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

// Trigger is a source of requests that do not come from a cache of the manager, for example
// from a watch of another cluster. It belongs to one controller: see WatchesRawSource. Requests
// before the start of the controller are kept for it. The zero value is ready.
type Trigger struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting []reconcile.Request
}

// Start adds the requests to the queue of the controller. It implements source.Source.
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

// Add requests a pass over a key.
func (t *Trigger) Add(request reconcile.Request) { t.AddAfter(request, 0) }

// AddAfter requests a pass over a key after a delay, in which requests for the key are merged. There
// is no delay before the start of the controller.
func (t *Trigger) AddAfter(request reconcile.Request, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.waiting = append(t.waiting, request)
		return
	}
	t.queue.AddAfter(request, delay)
}
