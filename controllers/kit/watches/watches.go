// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches watches the pods of single nodes and namespaces, and the Services and EndpointSlices of single
// namespaces. Few of these objects in a cluster concern peers, so watching all of them would waste memory.
package watches

import (
	"context"
	"fmt"
	"slices"
	"sync"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// set has the watches of single nodes or namespaces, by name. It is safe for concurrent use.
type set struct {
	client kubernetes.Interface

	mu  sync.Mutex
	all map[string]*watch
}

// watch is the watch of one node or namespace.
type watch struct {
	// ctx is done when the watch ends.
	ctx       context.Context
	stop      context.CancelFunc
	factory   kubeinformers.SharedInformerFactory
	informers []cache.SharedIndexInformer
}

// content defines the informers for a node or namespace. of is its name.
type content interface {
	// options returns the options of the informers for the node or namespace with the name of: the filters that select
	// its objects, and the transform that is applied before an object is cached.
	options(of string) []kubeinformers.SharedInformerOption
	// informers returns an informer for each watched kind.
	informers(factory kubeinformers.SharedInformerFactory) []cache.SharedIndexInformer
	// handler returns the handler of the events of all informers for the node or namespace with the name of.
	handler(of string) cache.ResourceEventHandler
}

func newSet(client kubernetes.Interface) set {
	return set{client: client, all: map[string]*watch{}}
}

// begin returns the watch of a node or namespace. The first call for it starts the watch, which ends with ctx; began is
// true for that call. It fails if a handler cannot be added.
func (s *set) begin(ctx context.Context, of string, content content) (found *watch, began bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.all[of]; ok {
		return found, false, nil
	}
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(s.client, 0, content.options(of)...)
	begun := &watch{factory: factory, informers: content.informers(factory)}
	handler := content.handler(of)
	for _, informer := range begun.informers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, false, fmt.Errorf("watching the objects of node or namespace %s: %w", of, err)
		}
	}
	begun.ctx, begun.stop = context.WithCancel(ctx)
	s.all[of] = begun
	factory.StartWithContext(begun.ctx)
	return begun, true, nil
}

// find returns the watch of a node or namespace; nil if it is not watched.
func (s *set) find(of string) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[of]
}

// Forget ends the watch of a node or namespace.
func (s *set) Forget(of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if watch, ok := s.all[of]; ok {
		watch.stop()
		delete(s.all, of)
	}
}

// synced reports whether all informers have synced; false for a nil watch.
func (w *watch) synced() bool {
	return w != nil && !slices.ContainsFunc(w.informers, func(informer cache.SharedIndexInformer) bool {
		return !informer.HasSynced()
	})
}
