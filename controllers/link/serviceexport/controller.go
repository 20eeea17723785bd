// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceexport implements the Multi-Cluster Services API, KEP-1645, in offloaded namespaces and
// in remote namespaces. For a Service that the consumer exports, it creates a ServiceImport in the
// offloaded namespace and in each remote namespace, with EndpointSlices that contain the reachable
// endpoints.
//
// Consumer and provider run the same controller. On the consumer, Services with a ServiceExport are exported;
// on a provider, reflected Services with the label LabelExported, which the virtual kubelet sets. Peers write
// no objects of the Multi-Cluster Services API.
package serviceexport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/mcs"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "service-export"

const (
	// workers is the number of Services that are reconciled in parallel.
	workers = 2
	// settle is the delay of a reconcile after a Service or its endpoints changed, so that it handles further changes,
	// too. It limits the load that a consumer's changes in its remote namespace cause.
	settle = 500 * time.Millisecond
)

// Reconciler ensures the ServiceImports of exported Services and their EndpointSlices, and writes the
// status of ServiceExports. Its requests name Services.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Kube watches the Services and EndpointSlices of single namespaces.
	Kube   kubernetes.Interface
	Events record.EventRecorder
	// Served reports whether this cluster serves ServiceExports and ServiceImports, and when that changes.
	Served *mcs.Served
	// ClusterName is the name of this cluster.
	ClusterName string
	// Account is the ServiceAccount of the controller. It gets permission to create EndpointSlices in
	// offloaded namespaces with exports.
	Account types.NamespacedName

	manager    ctrl.Manager
	controller controller.Controller
	// bindings reads a cache of the RoleBindings with the name bindingName.
	bindings client.Reader
	// requests enqueues Services while a session runs.
	requests kit.Trigger
	// session is nil while this cluster does not serve the Multi-Cluster Services API.
	session atomic.Pointer[session]
	// reported maps Services whose ServiceImport conflicts with another one to the message of the last
	// event.
	reported sync.Map
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	bindings, err := kit.NewCache(manager, map[client.Object]cache.ByObject{&rbacv1.RoleBinding{}: kit.Named(bindingName)})
	if err != nil {
		return err
	}
	r.manager, r.bindings = manager, bindings
	r.controller, err = ctrl.NewControllerManagedBy(manager).Named(Name).
		// Namespaces are only cached; their changes enqueue nothing.
		Watches(&corev1.Namespace{}, handler.Funcs{}).
		Watches(&v1alpha1.NamespaceOffloading{}, handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf)).
		Watches(&v1alpha1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.everywhere),
			builder.WithPredicates(kit.Changed(networkingChanged))).
		Watches(&v1alpha1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(r.everywhere),
			builder.WithPredicates(kit.Changed(nodeChanged))).
		WatchesRawSource(source.Kind[client.Object](bindings, &rbacv1.RoleBinding{},
			handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf))).
		WatchesRawSource(&r.requests).
		WithOptions(kit.Options(workers)).
		Build(r)
	if err != nil {
		return err
	}
	return manager.Add(r)
}

// Start implements manager.Runnable. It runs a session whenever this cluster serves the Multi-Cluster
// Services API, until ctx is done.
func (r *Reconciler) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.Served.Run(ctx) })
	r.Served.Follow(ctx, func(ctx context.Context, served bool) {
		if served {
			r.serve(ctx)
		}
	})
	return nil
}

// networkingChanged reports whether the pods of a cluster became reachable, or unreachable.
func networkingChanged(old, current *v1alpha1.ForeignCluster) bool {
	return old.Status.Networking != current.Status.Networking
}

func nodeChanged(old, current *v1alpha1.VirtualNode) bool {
	return old.Generation != current.Generation
}

// inNamespaceOf maps an object to the Services that are exported or imported in its namespace.
func (r *Reconciler) inNamespaceOf(ctx context.Context, object client.Object) []reconcile.Request {
	return r.in(ctx, object.GetNamespace())
}

// everywhere maps any object to all Services that are exported or imported.
func (r *Reconciler) everywhere(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.in(ctx, "")
}

// in returns requests for the Services that are exported or imported in a namespace; in all if the name is
// empty.
func (r *Reconciler) in(ctx context.Context, namespace string) []reconcile.Request {
	s := r.session.Load()
	if s == nil {
		return nil
	}
	// Listing from a cache fails only after its session has ended.
	objects, _ := s.in(ctx, namespace)
	var requests []reconcile.Request
	for _, object := range objects {
		requests = append(requests, kit.Request(object.GetNamespace(), object.GetName()))
	}
	return requests
}
