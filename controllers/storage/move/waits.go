// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"sync"
	"time"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// waitConfirmed is the time for which this process must have found a move waiting before a deadline rolls it back.
	// After a restart of this process, or an outage of the API server, the other controllers and the connections to
	// providers need it.
	waitConfirmed = 30 * time.Second
	// maxPause is the time between two steps of a move that wait, after which its wait starts again. It is longer than a
	// request to a provider that does not respond.
	maxPause = 2 * time.Minute
)

// waits records since when this process has found moves waiting, by the ID of the move.
type waits struct {
	mu  sync.Mutex
	all map[string]wait
}

// wait is the wait of a move in one phase.
type wait struct {
	phase       v1alpha1.MovePhase
	first, last time.Time
}

// in records that a move waits in a phase at the time now, and returns for how long it has done so.
func (w *waits) in(id string, phase v1alpha1.MovePhase, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.all, func(_ string, old wait) bool { return now.Sub(old.last) > maxPause })
	if w.all == nil {
		w.all = map[string]wait{}
	}
	current, ok := w.all[id]
	if !ok || current.phase != phase {
		current = wait{phase: phase, first: now}
	}
	current.last = now
	w.all[id] = current
	return now.Sub(current.first)
}
