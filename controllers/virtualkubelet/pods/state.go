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

// podState is what is remembered of one pod in addition to the caches.
type podState struct {
	// local ends with the local pod, shadow with the shadow pod, which may outlive it.
	local  localState
	shadow shadowState
}

// localState is what is remembered of a local pod.
type localState struct {
	// boundAt is when the pod was first seen bound to the node, and offloaded is set once its
	// shadow pod was created.
	boundAt   time.Time
	offloaded bool
	// readyAt is when the remote pod was seen ready; zero while it is not.
	readyAt time.Time
	// unoffloadedAt is when the namespace of the pod was seen not to be offloaded any more.
	unoffloadedAt time.Time
	// written is the resourceVersion that the last status patch was made from.
	written string
	// postponedUntil is the time before which a status that differs only in the address of
	// the virtual kubelet is not written.
	postponedUntil time.Time
	// removed is the UID of the local pod that was removed and is still cached.
	removed types.UID
	// ending is the remote pod that is deleted on the provider; nil if none is.
	ending *ending
	// delivery is the last delivery of tokens; nil before the first one.
	delivery *delivery
	// blocked has the reasons for which the provider last refused the pod and which may pass.
	blocked [blockReasons]bool
}

// shadowState is what is remembered of the writes to a shadow pod.
type shadowState struct {
	// created was created and is not observed yet; nil otherwise. Caches lag behind writes.
	created *creation
	// deleted was requested; nil if none was.
	deleted *deletion
}

// creation is a shadow pod as returned by its creation, and the time of that.
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

// ending is a pod that is deleted on the provider though the local pod is not.
type ending struct {
	uid types.UID
	// since is when that was seen first, by the local clock: the provider's may differ.
	since time.Time
	// givenUp reports whether the local pod was deleted for it.
	givenUp bool
}

// delivery is the time before which no tokens of a pod are sent again. It belongs to the local pod: a
// provider can delete and create shadow pods.
type delivery struct {
	pod   types.UID
	until time.Time
}

// blockReason is why a pod waits for the provider.
type blockReason int

const (
	// overQuota means that the provider has no quota left for the pod.
	overQuota blockReason = iota
	// tooManyFinished means that the provider keeps too many finished shadow pods.
	tooManyFinished
	blockReasons
)

// states are the states of all pods of the node, by key. The zero value is empty. A pod of which nothing
// is remembered has no entry.
type states struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*podState
	// blocked is the index of byKey by blockReason, and triedAt when some of these pods were
	// tried last, or will be.
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
	state, known := s.byKey[key]
	if !known {
		state = &podState{}
	}
	change(state)
	s.index(key, state.local.blocked)
	switch {
	case *state == (podState{}):
		delete(s.byKey, key)
	case !known:
		if s.byKey == nil {
			s.byKey = map[cache.ObjectName]*podState{}
		}
		s.byKey[key] = state
	}
}

// dropLocal removes everything about a local pod that is gone.
func (s *states) dropLocal(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local = localState{} })
}

// drop removes everything about a pod that is gone from both clusters.
func (s *states) drop(key cache.ObjectName) {
	s.change(key, func(state *podState) { *state = podState{} })
}

// block sets that a pod waits.
func (s *states) block(key cache.ObjectName, reason blockReason) {
	s.change(key, func(state *podState) { state.local.blocked[reason] = true })
}

// unblock sets that a pod waits no more, and reports whether it did.
func (s *states) unblock(key cache.ObjectName, reason blockReason) (waited bool) {
	s.change(key, func(state *podState) {
		waited, state.local.blocked[reason] = state.local.blocked[reason], false
	})
	return waited
}

// unblockAll sets that a pod waits for nothing.
func (s *states) unblockAll(key cache.ObjectName) {
	s.change(key, func(state *podState) { state.local.blocked = [blockReasons]bool{} })
}

// someBlocked returns at most so many waiting pods, not always the same ones.
func (s *states) someBlocked(reason blockReason, most int) (pods []cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pod := range s.blocked[reason] {
		if len(pods) == most {
			break
		}
		pods = append(pods, pod)
	}
	return pods
}

// nextTry returns the time until some of the waiting pods are to be tried, since there may be room for
// them now; false if that is about to happen anyway.
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
