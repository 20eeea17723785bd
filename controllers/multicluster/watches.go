// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"sync"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/remote"
)

// watches are those of the Services and EndpointSlices of some namespaces, and
// of no others: a cluster has many of both, and few are exported.
type watches struct {
	kube kubernetes.Interface
	// changed is told of each object that came, changed or went, and complete of
	// each namespace that is known now.
	changed  cache.ResourceEventHandler
	complete func(namespace string)

	mu  sync.Mutex
	all map[string]*watch
}

// watch is that of one namespace.
type watch struct {
	services corelisters.ServiceNamespaceLister
	slices   discoverylisters.EndpointSliceNamespaceLister
	synced   func() bool
	stop     context.CancelFunc
}

// of is the watch of a namespace; nil while it is not complete. The first call
// begins it, until the context ends.
func (w *watches) of(ctx context.Context, namespace string) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one, ok := w.all[namespace]
	if !ok {
		var err error
		if one, err = w.begin(ctx, namespace); err != nil {
			return nil, err
		}
		w.all[namespace] = one
	}
	if !one.synced() {
		return nil, nil
	}
	return one, nil
}

func (w *watches) begin(ctx context.Context, namespace string) (*watch, error) {
	ctx, stop := context.WithCancel(ctx)
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(w.kube, 0, kubeinformers.WithNamespace(namespace), kubeinformers.WithTransform(remote.Trim))
	services, slices := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer()} {
		if _, err := informer.AddEventHandler(w.changed); err != nil {
			stop()
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	one := &watch{
		services: services.Lister().Services(namespace), slices: slices.Lister().EndpointSlices(namespace), stop: stop,
		synced: func() bool { return services.Informer().HasSynced() && slices.Informer().HasSynced() },
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), one.synced) {
			w.complete(namespace)
		}
	}()
	return one, nil
}

// forget ends the watch of a namespace.
func (w *watches) forget(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, ok := w.all[namespace]; ok {
		one.stop()
		delete(w.all, namespace)
	}
}
