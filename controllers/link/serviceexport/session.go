// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
)

// sessionRetry is the time between two attempts to start a session while its cache cannot be created.
const sessionRetry = 5 * time.Second

// session has the caches that exist while this cluster serves the Multi-Cluster Services API.
type session struct {
	// cached reads ServiceExports, the ServiceImports that this controller created, and the
	// reflected Services that consumers export.
	cached client.Reader
	// services caches the Services and EndpointSlices of namespaces with exports or imports.
	services services
	// during is done when the session ends.
	during context.Context
}

// services caches and watches the Services and EndpointSlices of single namespaces.
type services interface {
	// Of returns the Services and EndpointSlices of a namespace; nil while not all are cached.
	Of(ctx context.Context, namespace string) (*watches.NamespaceServices, error)
	// Forget ends the watch of a namespace.
	Forget(namespace string)
}

// serve runs a session until ctx is done.
func (r *Reconciler) serve(ctx context.Context) {
	var cached cache.Cache
	err := wait.PollUntilContextCancel(ctx, sessionRetry, true, func(context.Context) (bool, error) {
		var err error
		if cached, err = r.newCache(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Watching exports failed, retrying")
		}
		return err == nil, nil
	})
	if err != nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if err := cached.Start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The cache of exports ended")
		}
	})
	if !cached.WaitForCacheSync(ctx) {
		return
	}
	complete := func(namespace string) { r.requestAll(ctx, namespace) }
	r.session.Store(&session{
		cached: cached, services: watches.NewServices(r.Kube, serviceChanges{&r.requests}, complete), during: ctx,
	})
	defer r.session.Store(nil)
	r.requestAll(ctx, "")
	<-ctx.Done()
}

// newCache returns a cache for a session, which the controller watches until the context ends.
func (r *Reconciler) newCache(ctx context.Context) (cache.Cache, error) {
	exported := labels.SelectorFromSet(labels.Set{v1alpha1.LabelExported: "true"})
	managed := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	cached, err := kit.NewUnmanagedCache(r.manager, map[client.Object]cache.ByObject{
		&mcsv1alpha1.ServiceExport{}: {},
		&mcsv1alpha1.ServiceImport{}: {Label: managed},
		&corev1.Service{}:            {Label: exported},
	})
	if err != nil {
		return nil, err
	}
	sources := map[client.Object]handler.EventHandler{
		&mcsv1alpha1.ServiceExport{}: &handler.EnqueueRequestForObject{},
		&mcsv1alpha1.ServiceImport{}: &handler.EnqueueRequestForObject{},
		&corev1.Service{}:            kit.EnqueueAfter(settle, serviceOf),
	}
	// The informers are created before the cache starts, because the start waits for their sync.
	for object := range sources {
		if _, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	for object, handler := range sources {
		if err := r.controller.Watch(sessionSource{source.Kind(cached, object, handler), ctx}); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return cached, nil
}

// sessionSource is a source that ends with a session, while its controller continues.
type sessionSource struct {
	source.Source
	during context.Context
}

// Start implements source.Source.
func (s sessionSource) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return s.Source.Start(s.during, queue)
}

// String returns the name of the source in logs.
func (s sessionSource) String() string { return fmt.Sprint(s.Source) }

// requestAll enqueues all Services that are exported or imported in a namespace; in all if the name is empty.
func (r *Reconciler) requestAll(ctx context.Context, namespace string) {
	for _, request := range r.in(ctx, namespace) {
		r.requests.Add(request)
	}
}

// in returns the ServiceExports, ServiceImports and exported reflected Services in a namespace; in all if the
// name is empty.
func (s *session) in(ctx context.Context, namespace string) ([]client.Object, error) {
	var exports mcsv1alpha1.ServiceExportList
	var imports mcsv1alpha1.ServiceImportList
	var copies corev1.ServiceList
	for _, list := range []client.ObjectList{&exports, &imports, &copies} {
		if err := s.cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	var all []client.Object
	for i := range exports.Items {
		all = append(all, &exports.Items[i])
	}
	for i := range imports.Items {
		all = append(all, &imports.Items[i])
	}
	for i := range copies.Items {
		all = append(all, &copies.Items[i])
	}
	return all, nil
}

// serviceOf maps a Service to itself, and an EndpointSlice to the Service that it belongs to, directly or
// through a ServiceImport.
func serviceOf(_ context.Context, object client.Object) []reconcile.Request {
	if _, ok := object.(*discoveryv1.EndpointSlice); !ok {
		return []reconcile.Request{kit.Request(object.GetNamespace(), object.GetName())}
	}
	var requests []reconcile.Request
	for _, label := range []string{discoveryv1.LabelServiceName, mcsv1alpha1.LabelServiceName} {
		if service := object.GetLabels()[label]; service != "" {
			requests = append(requests, kit.Request(object.GetNamespace(), service))
		}
	}
	return requests
}

// serviceChanges implements cache.ResourceEventHandler. It enqueues the Service of a changed Service or
// EndpointSlice after settle.
type serviceChanges struct {
	requests *kit.Trigger
}

// OnAdd implements cache.ResourceEventHandler.
func (c serviceChanges) OnAdd(object any, _ bool) { c.request(object) }

// OnUpdate implements cache.ResourceEventHandler.
func (c serviceChanges) OnUpdate(_, current any) { c.request(current) }

// OnDelete implements cache.ResourceEventHandler.
func (c serviceChanges) OnDelete(object any) {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	c.request(object)
}

func (c serviceChanges) request(object any) {
	if changed, ok := object.(client.Object); ok {
		for _, request := range serviceOf(context.Background(), changed) {
			c.requests.AddAfter(request, settle)
		}
	}
}
