// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller of NamespaceOffloadings in --controllers, logs, metrics
// and events.
const Name = "namespace-offloading"

// workers is the number of NamespaceOffloadings that are reconciled in parallel.
const workers = 4

// Reconciler reconciles NamespaceOffloadings. See the package documentation.
type Reconciler struct {
	*Config
	// Events receives events of NamespaceOffloadings, and of pods that are evicted.
	Events record.EventRecorder

	// bindings reads a cache of the RoleBindings reflectionBinding. SetupWithManager sets it.
	bindings client.Reader
	// evictions and unoffloaded have the back-off of refused evictions by the owner of the pod: evictions for
	// misplaced pods, and unoffloaded for pods in namespaces that are being unoffloaded.
	evictions, unoffloaded *flowcontrol.Backoff
	// specs maps the name of a namespace to its seenSpec.
	specs sync.Map
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	named := map[client.Object]cache.ByObject{&rbacv1.RoleBinding{}: kit.Named(reflectionBinding)}
	bindings, err := kit.NewCache(manager, named)
	if err != nil {
		return err
	}
	r.bindings = bindings
	r.evictions = flowcontrol.NewBackOff(minEvictionDelay, maxEvictionDelay)
	r.unoffloaded = flowcontrol.NewBackOff(minEvictionDelay, maxUnoffloadDelay)
	pods := &kit.Trigger{}
	r.Pods.Listen(func(namespace string, _ *corev1.Pod) { pods.AddAfter(offloadingRequest(namespace), settleTime) })

	all := handler.EnqueueRequestsFromMapFunc(r.allOffloadings)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.NamespaceOffloading{}).
		Watches(&v1alpha1.NamespaceMap{}, r.mapHandler()).
		Watches(&v1alpha1.ForeignCluster{}, all, builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.VirtualNode{}, all, builder.WithPredicates(kit.SpecChanged(), inPeerNamespace)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(nodeChanged(), isVirtual)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(ofNamespace),
			builder.WithPredicates(namespaceChanged())).
		WatchesRawSource(source.Kind[client.Object](bindings, &rbacv1.RoleBinding{},
			handler.EnqueueRequestsFromMapFunc(inNamespace))).
		WatchesRawSource(pods).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// inPeerNamespace selects objects in peer namespaces.
var inPeerNamespace = predicate.NewPredicateFuncs(func(object client.Object) bool {
	return naming.IsPeerNamespace(object.GetNamespace())
})

// isVirtual selects the virtual nodes of all providers, because the VirtualNode that names the provider of a Node may
// not be cached yet.
var isVirtual = predicate.NewPredicateFuncs(func(node client.Object) bool {
	return node.GetLabels()[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
})

// nodeChanged selects changes of the labels of nodes.
func nodeChanged() predicate.Predicate {
	return kit.Changed(
		func(old, current client.Object) bool { return !maps.Equal(old.GetLabels(), current.GetLabels()) },
	)
}

// namespaceChanged selects changes of the labels of namespaces, and the start of their deletion.
func namespaceChanged() predicate.Predicate {
	return kit.Changed(func(old, current client.Object) bool {
		return !maps.Equal(old.GetLabels(), current.GetLabels()) || kit.DeletionBegan(old, current)
	})
}

func ofNamespace(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{offloadingRequest(namespace.GetName())}
}

func inNamespace(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{offloadingRequest(object.GetNamespace())}
}

func (r *Reconciler) allOffloadings(ctx context.Context, _ client.Object) []reconcile.Request {
	// Listing from a cache fails only before the cache is synced, which enqueues every object anyway.
	offloadings, _ := r.offloadings(ctx)
	var requests []reconcile.Request
	for _, offloading := range offloadings {
		requests = append(requests, offloadingRequest(offloading.Namespace))
	}
	return requests
}

// mapHandler enqueues the namespaces whose entries in a NamespaceMap of this cluster changed.
func (r *Reconciler) mapHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(old, current client.Object, queue queue) {
		before, _ := old.(*v1alpha1.NamespaceMap)
		if !r.consumerOf(current) {
			return
		}
		for _, name := range changedNamespaces(before, current.(*v1alpha1.NamespaceMap)) {
			queue.Add(offloadingRequest(name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue queue) { changed(nil, e.Object, queue) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue queue) {
			changed(e.ObjectOld, e.ObjectNew, queue)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue queue) { changed(nil, e.Object, queue) },
	}
}

// changedNamespaces returns the namespaces whose status differs between two versions of a NamespaceMap and, if the
// spec differs, all namespaces with an entry in one of them. old is nil if the NamespaceMap was created or deleted.
func changedNamespaces(old, current *v1alpha1.NamespaceMap) []string {
	before := map[string]v1alpha1.NamespaceMappingStatus{}
	if old != nil {
		for _, status := range old.Status.Namespaces {
			before[status.Name] = status
		}
	}
	var names []string
	for _, status := range current.Status.Namespaces {
		if before[status.Name] != status {
			names = append(names, status.Name)
		}
		delete(before, status.Name)
	}
	for name := range before {
		names = append(names, name)
	}
	if old == nil || kit.SpecChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: current}) {
		if old != nil {
			for _, entry := range old.Spec.Namespaces {
				names = append(names, entry.Name)
			}
		}
		for _, entry := range current.Spec.Namespaces {
			names = append(names, entry.Name)
		}
	}
	return names
}
