// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// podState is the state of one local pod and its shadow pod that is not in the caches.
type podState struct {
	// local is cleared when the local pod is deleted, and shadow when the shadow pod is deleted, which may be later.
	local  localState
	shadow shadowState
}

// localState is the state that is dropped when the local pod is deleted.
type localState struct {
	// boundAt is the time at which the pod was first reconciled with a ready remote namespace. offloaded is true once
	// its shadow pod was created.
	boundAt   time.Time
	offloaded bool
	// readyAt is the time at which the cache received that the remote pod is ready; zero while it is not ready.
	readyAt time.Time
	// unoffloadedAt is the time at which a reconcile first found the pod's namespace not offloaded; zero while it is
	// offloaded.
	unoffloadedAt time.Time
	// written is the resourceVersion of the pod that the last status patch was computed from. While the cache has that
	// version, it lacks the patch.
	written string
	// postponedUntil is the time from which a status that differs only in the address of the virtual kubelet may be
	// written; zero means that none is pending.
	postponedUntil time.Time
	// delayedUntil is the time from which a status may be written that exceeded the rate of writes; zero means that none
	// is pending.
	delayedUntil time.Time
	// removed is the UID of the local pod that this controller deleted from the API server and the cache still has.
	removed types.UID
	// ending is the remote pod that the provider is deleting; nil means none.
	ending *ending
	// delivery is the last delivery of tokens; nil before the first.
	delivery *delivery
	// blocked has the temporary reasons for which the provider last refused the pod.
	blocked [blockReasons]bool
}

// shadowState is the state that ends with the shadow pod.
type shadowState struct {
	// created is the created shadow pod while the cache has not received it; otherwise nil.
	created *creation
	// deleted is the last requested deletion; nil before the first.
	deleted *deletion
}

// creation is a created shadow pod, and the time at which the API server's response was received.
type creation struct {
	*v1alpha1.ShadowPod
	at time.Time
}

// deletion is a requested deletion of a shadow pod.
type deletion struct {
	uid types.UID
	// grace is the requested grace period in seconds; -1 means the pod's own.
	grace int64
}

// ending is a remote pod that is being deleted while its local pod is not.
type ending struct {
	uid types.UID
	// since is the time at which the controller first observed that the remote pod is being deleted, by the local
	// clock.
	since time.Time
	// givenUp is true after the local pod was deleted because the remote pod counts as lost.
	givenUp bool
}

// delivery is the time before which no tokens are sent again for the local pod with this UID. It does not depend on the
// shadow pod, which the provider could delete to cause further tokens.
type delivery struct {
	pod   types.UID
	until time.Time
}

// blockReason is a temporary reason for which the provider refuses a pod.
type blockReason int

const (
	// overQuota means that the consumer's quota on the provider does not suffice for the pod.
	overQuota blockReason = iota
	// tooManyFinished means that the provider has as many finished shadow pods of the consumer as its limit allows.
	tooManyFinished
	blockReasons
)

// states has the states of all pods of the node by the name of the local pod. Its zero value is empty. It has no entry
// for a zero podState.
type states struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*podState
	// blocked has, for each blockReason, the keys of the pods that the provider refuses for it. triedAt is the time of
	// their last retry or, if it is in the future, of their next retry.
	blocked [blockReasons]sets.Set[cache.ObjectName]
	triedAt [blockReasons]time.Time
}

// read returns a copy of the state of a pod.
func (s *states) read(key cache.ObjectName) podState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.byKey[key]; ok {
		return *state
	}
	return podState{}
}

// change calls a function with the state of a pod, which it may modify. The function must not call methods of states.
func (s *states) change(key cache.ObjectName, change func(*podState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, exists := s.byKey[key]
	if !exists {
		state = &podState{}
	}
	change(state)
	s.index(key, state.local.blocked)
	switch {
	case *state == (podState{}):
		delete(s.byKey, key)
	case !exists:
		if s.byKey == nil {
			s.byKey = map[cache.ObjectName]*podState{}
		}
		s.byKey[key] = state
	}
}

// dropLocal removes the state that ends with the local pod.
func (s *states) dropLocal(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local = localState{} })
}

// drop removes the state of a pod after both the local pod and the shadow pod were deleted.
func (s *states) drop(key cache.ObjectName) {
	s.change(key, func(state *podState) { *state = podState{} })
}

// block sets a reason for which the provider refuses a pod.
func (s *states) block(key cache.ObjectName, reason blockReason) {
	s.change(key, func(state *podState) { state.local.blocked[reason] = true })
}

// unblock clears a reason for which the provider refused a pod, and reports whether it was set.
func (s *states) unblock(key cache.ObjectName, reason blockReason) (waited bool) {
	s.change(key, func(state *podState) {
		waited, state.local.blocked[reason] = state.local.blocked[reason], false
	})
	return waited
}

// unblockAll clears all reasons for which the provider refused a pod.
func (s *states) unblockAll(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local.blocked = [blockReasons]bool{} })
}

// someBlocked returns at most limit pods that are blocked for a reason, chosen at random.
func (s *states) someBlocked(reason blockReason, limit int) (pods []cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pod := range s.blocked[reason] {
		if len(pods) == limit {
			break
		}
		pods = append(pods, pod)
	}
	return pods
}

// nextTry reserves the next retry of pods that are blocked for a reason, and returns the time until it. It returns
// false if no pod is blocked or a retry is already reserved.
func (s *states) nextTry(reason blockReason, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blocked[reason]) == 0 || s.triedAt[reason].After(now) {
		return 0, false
	}
	next := s.triedAt[reason].Add(tryPause)
	if next.Before(now) {
		next = now
	}
	s.triedAt[reason] = next
	return next.Sub(now), true
}

func (s *states) index(key cache.ObjectName, blocked [blockReasons]bool) {
	for reason, waits := range blocked {
		switch {
		case !waits:
			s.blocked[reason].Delete(key)
		case s.blocked[reason] == nil:
			s.blocked[reason] = sets.New(key)
		default:
			s.blocked[reason].Insert(key)
		}
	}
}
