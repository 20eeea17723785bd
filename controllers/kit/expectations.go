// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheLag is the time after which an expected object is no longer Pending, even if the cache did not receive it, for
// example because it was deleted at once.
const CacheLag = 10 * time.Second

// Expectations records the objects of one kind that a controller created and its cache has not received yet, so that
// the next reconcile does not create them again. It is safe for concurrent use.
type Expectations struct {
	clock   clock.PassiveClock
	mu      sync.Mutex
	created map[types.NamespacedName]creation
}

// creation is an object that Expect recorded and Observe has not received.
type creation struct {
	uid types.UID
	at  time.Time
}

// NewExpectations returns Expectations without objects.
func NewExpectations(clock clock.PassiveClock) *Expectations {
	return &Expectations{clock: clock, created: map[types.NamespacedName]creation{}}
}

// Expect records an object that was created, as the API server returned it.
func (e *Expectations) Expect(object client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.created[client.ObjectKeyFromObject(object)] = creation{uid: object.GetUID(), at: e.clock.Now()}
}

// Observe records that the cache received an object, or its deletion.
func (e *Expectations) Observe(object client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if key := client.ObjectKeyFromObject(object); e.created[key].uid == object.GetUID() {
		delete(e.created, key)
	}
}

// Pending reports whether an object with this key was created less than CacheLag ago and not observed yet.
func (e *Expectations) Pending(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	created, ok := e.created[key]
	if ok && e.clock.Since(created.at) >= CacheLag {
		delete(e.created, key)
		return false
	}
	return ok
}
