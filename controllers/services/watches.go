// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package services watches the Services and EndpointSlices of some namespaces, and
// of no others.
package services

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

// Watches are those of the Services and EndpointSlices of some namespaces: a
// cluster has many of both, and few matter to other clusters.
type Watches struct {
	kube     kubernetes.Interface
	changed  cache.ResourceEventHandler
	complete func(namespace string)

	mu  sync.Mutex
	all map[string]*Watch
}

// Watch is that of one namespace.
type Watch struct {
	Services corelisters.ServiceNamespaceLister
	Slices   discoverylisters.EndpointSliceNamespaceLister
	synced   func() bool
	stop     context.CancelFunc
}

// New makes watches. changed is told of each object that came, changed or went,
// and complete of each namespace that is known now.
func New(kube kubernetes.Interface, changed cache.ResourceEventHandler, complete func(namespace string)) *Watches {
	return &Watches{kube: kube, changed: changed, complete: complete, all: map[string]*Watch{}}
}

// Of is the watch of a namespace; nil while it is not complete. The first call
// begins it, until the context ends.
func (w *Watches) Of(ctx context.Context, namespace string) (*Watch, error) {
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

func (w *Watches) begin(ctx context.Context, namespace string) (*Watch, error) {
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
	one := &Watch{
		Services: services.Lister().Services(namespace), Slices: slices.Lister().EndpointSlices(namespace), stop: stop,
		synced: func() bool { return services.Informer().HasSynced() && slices.Informer().HasSynced() },
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), one.synced) {
			w.complete(namespace)
		}
	}()
	return one, nil
}

// Forget ends the watch of a namespace.
func (w *Watches) Forget(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, ok := w.all[namespace]; ok {
		one.stop()
		delete(w.all, namespace)
	}
}
