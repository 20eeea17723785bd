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

// podState is the state of one pod that is not in the caches.
type podState struct {
	// local is dropped with the local pod, shadow with the shadow pod, which may outlive it.
	local  localState
	shadow shadowState
}

// localState is the state of a local pod.
type localState struct {
	// boundAt is the time at which the pod was first observed, and offloaded reports whether its shadow pod was
	// created.
	boundAt   time.Time
	offloaded bool
	// readyAt is the time at which the remote pod was observed to be ready; zero while it is not.
	readyAt time.Time
	// unoffloadedAt is the time at which the namespace of the pod was observed not to be offloaded.
	unoffloadedAt time.Time
	// written is the resourceVersion on which the last status patch was based.
	written string
	// postponedUntil is the time before which a status that differs only in the address of
	// the virtual kubelet is not written.
	postponedUntil time.Time
	// removed is the UID of the local pod that was removed and is still cached.
	removed types.UID
	// ending is the remote pod that the provider is deleting; nil if there is none.
	ending *ending
	// delivery is the last delivery of tokens; nil before the first one.
	delivery *delivery
	// blocked are the temporary reasons for which the provider last refused the pod.
	blocked [blockReasons]bool
}

// shadowState is the state of writes to a shadow pod.
type shadowState struct {
	// created is a created shadow pod that the cache has not observed yet; nil otherwise.
	created *creation
	// deleted is the last requested deletion; nil if there is none.
	deleted *deletion
}

// creation is a created shadow pod and the time of the response.
type creation struct {
	*v1alpha1.ShadowPod
	at time.Time
}

// deletion is the last requested deletion of a shadow pod.
type deletion struct {
	uid types.UID
	// grace is the grace period in seconds; -1 is the pod's own.
	grace int64
}

// ending is a remote pod that is being deleted while the local pod is not.
type ending struct {
	uid types.UID
	// since is the time at which the deletion was first observed, on the local clock.
	since time.Time
	// givenUp reports whether the local pod was deleted because of it.
	givenUp bool
}

// delivery is the time until which no tokens of a local pod are sent again. It is not bound to the shadow pod, which
// the provider can delete and create again.
type delivery struct {
	pod   types.UID
	until time.Time
}

// blockReason is a temporary reason for which the provider refuses a pod.
type blockReason int

const (
	// overQuota means that the provider has no quota left for the pod.
	overQuota blockReason = iota
	// tooManyFinished means that the provider keeps too many finished shadow pods.
	tooManyFinished
	blockReasons
)

// states are the states of all pods of the node, by key. The zero value is empty. Pods with a zero state have no entry.
type states struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*podState
	// blocked is the index of byKey by blockReason, and triedAt the time of the last retry of some of these pods,
	// which may be in the future.
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

// change changes the state of a pod. The function must not call other methods of states.
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

// dropLocal removes the state of a deleted local pod.
func (s *states) dropLocal(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local = localState{} })
}

// drop removes the state of a pod that was deleted from both clusters.
func (s *states) drop(key cache.ObjectName) {
	s.change(key, func(state *podState) { *state = podState{} })
}

// block sets that the provider refuses a pod for the reason.
func (s *states) block(key cache.ObjectName, reason blockReason) {
	s.change(key, func(state *podState) { state.local.blocked[reason] = true })
}

// unblock clears the reason, and reports whether it was set.
func (s *states) unblock(key cache.ObjectName, reason blockReason) (waited bool) {
	s.change(key, func(state *podState) {
		waited, state.local.blocked[reason] = state.local.blocked[reason], false
	})
	return waited
}

// unblockAll clears all reasons.
func (s *states) unblockAll(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local.blocked = [blockReasons]bool{} })
}

// someBlocked returns a random selection of at most limit blocked pods.
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

// nextTry returns the time after which some of the blocked pods should be retried; false if there are none or a retry
// is already scheduled.
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
