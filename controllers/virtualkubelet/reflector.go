// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/virtualkubelet/reflect"
)

// reflectionWorkers is how many objects are looked at at the same time.
const reflectionWorkers = 4

// Reflections keeps what the pods of offloaded namespaces need beside
// themselves in line with the copies of it in the twin namespaces.
type Reflections struct {
	provider      string
	to            reflect.Destination
	local, remote kubernetes.Interface
	twins         *twins
	recorder      record.EventRecorder
	metrics       *Metrics
	// reachable tells whether the provider answers: while it does not, nothing
	// is sent.
	reachable func() bool

	kinds []reflectable
	queue *queue.Controller[reflectionKey]

	mu sync.RWMutex
	// namespaces are those that are being reflected, by their local name.
	namespaces map[string]reflectedNamespace
	// told holds what the owner of an object was told last, by key.
	told sync.Map
}

// reflectionKey names a local object.
type reflectionKey struct {
	resource string
	cache.ObjectName
}

// String is how the key is logged.
func (k reflectionKey) String() string { return k.resource + " " + k.ObjectName.String() }

// reflectedNamespace is an offloaded namespace and its twin.
type reflectedNamespace struct {
	twin string
	// kinds is what is reflected there, by resource.
	kinds map[string]reflector
	stop  context.CancelFunc
}

// reflector keeps the objects of one kind in one namespace in line with their
// copies.
type reflector interface {
	// run fills its caches and keeps them until the context ends.
	run(ctx context.Context)
	// synced tells whether the caches are filled.
	synced() bool
	// keys are those of everything that is known on either side.
	keys() []reflectionKey
	// reconcile brings one object and its copy in line.
	reconcile(ctx context.Context, key reflectionKey) (time.Duration, error)
}

// reflectable is a kind that is reflected.
type reflectable interface {
	// resource names it, also in metrics.
	resource() string
	// reflector reflects the objects of a namespace.
	reflector(r *Reflections, namespace, twin string) (reflector, error)
}

// complete adds what every one has: all kinds, and a queue.
func (r *Reflections) complete() *Reflections {
	r.kinds = reflectedKinds()
	r.namespaces = map[string]reflectedNamespace{}
	r.queue = queue.New("reflection", reflectionWorkers, r.reconcile)
	return r
}

// sync reflects exactly those namespaces whose twins are ready. One that is
// leaving is left alone: the provider removes it as a whole.
func (r *Reflections) sync(ctx context.Context) error {
	extents := r.twins.all()
	r.mu.Lock()
	defer r.mu.Unlock()
	for namespace, running := range r.namespaces {
		if e := extents[namespace]; !e.ready || e.twin == nil || e.twin.remote != running.twin {
			running.stop()
			delete(r.namespaces, namespace)
		}
	}
	for namespace, e := range extents {
		if _, running := r.namespaces[namespace]; running || !e.ready || e.twin == nil {
			continue
		}
		started, err := r.start(ctx, namespace, e.twin.remote)
		if err != nil {
			return fmt.Errorf("reflecting namespace %s to %s of %s: %w", namespace, e.twin.remote, r.provider, err)
		}
		r.namespaces[namespace] = started
	}
	return nil
}

func (r *Reflections) start(ctx context.Context, namespace, twin string) (reflectedNamespace, error) {
	started := reflectedNamespace{twin: twin, kinds: map[string]reflector{}}
	for _, kind := range r.kinds {
		one, err := kind.reflector(r, namespace, twin)
		if err != nil {
			return started, err
		}
		started.kinds[kind.resource()] = one
	}
	ctx, started.stop = context.WithCancel(ctx)
	for _, one := range started.kinds {
		one.run(ctx)
		go func() {
			// What came before both sides were known was not looked at.
			if cache.WaitForCacheSync(ctx.Done(), one.synced) {
				r.enqueue(one)
			}
		}()
	}
	return started, nil
}

// run works until the context ends.
func (r *Reflections) run(ctx context.Context) { r.queue.Run(ctx) }

// enqueueAll looks again at everything, for a provider that has come back.
func (r *Reflections) enqueueAll() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, namespace := range r.namespaces {
		for _, one := range namespace.kinds {
			r.enqueue(one)
		}
	}
}

func (r *Reflections) enqueue(one reflector) {
	for _, key := range one.keys() {
		r.queue.Add(key)
	}
}

// reconcile brings one object and its copy in line, if its namespace is
// reflected and the provider answers. When that changes, everything is looked
// at again.
func (r *Reflections) reconcile(ctx context.Context, key reflectionKey) (time.Duration, error) {
	r.mu.RLock()
	one := r.namespaces[key.Namespace].kinds[key.resource]
	r.mu.RUnlock()
	if one == nil || !one.synced() || !r.reachable() {
		return 0, nil
	}
	again, err := one.reconcile(ctx, key)
	r.metrics.reflections.WithLabelValues(key.resource).Inc()
	if err != nil {
		r.metrics.reflectionErrors.WithLabelValues(key.resource).Inc()
	}
	return again, err
}
