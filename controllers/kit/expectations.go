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

// cacheLag bounds the time until a cache receives a created object. An object that was deleted
// before it was observed is expected no longer than that.
const cacheLag = 10 * time.Second

// Expectations are the objects that a controller created and that its cache has not
// received yet: a pass in the meantime does not create them again. They are for one kind,
// and safe for concurrent use.
type Expectations struct {
	clock   clock.PassiveClock
	mu      sync.Mutex
	created map[types.NamespacedName]creation
}

// creation is an object that was created and not observed yet.
type creation struct {
	uid types.UID
	at  time.Time
}

// NewExpectations returns an empty set.
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

// Pending reports whether an object of that name was created and not observed yet.
func (e *Expectations) Pending(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	created, ok := e.created[key]
	if ok && e.clock.Since(created.at) >= cacheLag {
		delete(e.created, key)
		return false
	}
	return ok
}
