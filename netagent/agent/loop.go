// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// settle is how long changes are gathered before a pass.
	settle = 20 * time.Millisecond
	// A pass that failed is tried again after this time, and after twice as
	// long each time, up to the longest.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 10 * time.Second
	// stuck is how long a pass may take before the process counts as dead.
	stuck = time.Minute
	// unwell is how long passes may fail before the node counts as one that
	// cannot be brought to what it should be.
	unwell = 15 * time.Second
)

// Loop makes one pass after another: when something has changed, some time
// after a pass that failed, and again and again in case somebody else changed
// something.
type Loop struct {
	// Pass does all that is to be done, and nothing where all is as it should
	// be.
	Pass func(ctx context.Context) error
	// Resync is the time between passes while nothing changes.
	Resync time.Duration
	Clock  clock.Clock

	wake    chan struct{}
	began   atomic.Int64            // when the pass under way began, 0 if none is
	failing atomic.Pointer[failure] // nil if the last pass did not fail
	done    atomic.Bool
}

// failure is since when passes fail, and how the last one did.
type failure struct {
	since time.Time
	err   error
}

// Error is in one line.
func (f *failure) Error() string { return strings.ReplaceAll(f.err.Error(), "\n", "; ") }

// NewLoop makes a loop of a pass.
func NewLoop(resync time.Duration, pass func(ctx context.Context) error) *Loop {
	return &Loop{Pass: pass, Resync: resync, Clock: clock.RealClock{}, wake: make(chan struct{}, 1)}
}

// Wake has a pass made soon.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run makes passes until the context ends.
func (l *Loop) Run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		l.began.Store(l.Clock.Now().UnixNano())
		err := l.Pass(ctx)
		l.began.Store(0)
		wait := l.Resync
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			klog.FromContext(ctx).Error(err, "A pass failed and is tried again", "after", retry)
			since := l.Clock.Now()
			if before := l.failing.Load(); before != nil {
				since = before.since
			}
			l.failing.Store(&failure{since, err})
			wait = min(retry, l.Resync)
			retry = min(2*retry, longestRetry)
		} else {
			retry = firstRetry
			l.failing.Store(nil)
			l.done.Store(true)
		}
		timer := l.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-l.wake:
			l.gather(ctx)
		}
		timer.Stop()
	}
}

// Follower is a network namespace that tells of changes.
type Follower interface {
	// Follow calls changed when something of ours may have changed.
	Follow(ctx context.Context, changed func()) error
}

// Follow has a pass made when something of ours changes, until the context
// ends. What the kernel could not tell in time is found by the pass that is
// made then, and what cannot be followed yet is tried again each second.
func (l *Loop) Follow(ctx context.Context, namespace Follower) {
	for ctx.Err() == nil {
		if err := namespace.Follow(ctx, l.Wake); err != nil {
			klog.FromContext(ctx).Error(err, "Changes in the kernel may have been missed")
		}
		l.Wake()
		timer := l.Clock.NewTimer(time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// gather waits a moment for what changes together.
func (l *Loop) gather(ctx context.Context) {
	timer := l.Clock.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
	select {
	case <-l.wake:
	default:
	}
}

// Alive tells whether passes come to an end.
func (l *Loop) Alive() bool {
	began := l.began.Load()
	return began == 0 || l.Clock.Since(time.Unix(0, began)) < stuck
}

// Done tells whether a pass has succeeded since the start.
func (l *Loop) Done() bool { return l.done.Load() }

// Ready tells what speaks against the node being what it should be.
func (l *Loop) Ready() error {
	failing := l.failing.Load()
	switch {
	case !l.Alive():
		return errStuck
	case !l.Done() && failing == nil:
		return errors.New("no pass over the node's kernel has succeeded yet")
	case !l.Done():
		return fmt.Errorf("no pass over the node's kernel has succeeded yet: %w", failing)
	case failing.old(l.Clock):
		return fmt.Errorf("passes over the node's kernel have failed for %s or longer: %w", unwell, failing)
	}
	return nil
}

// Live tells why the process cannot go on.
func (l *Loop) Live() error {
	if !l.Alive() {
		return errStuck
	}
	return nil
}

var errStuck = errors.New("a pass over the node's kernel does not come to an end")

// Well tells whether passes come to a good end, or have until a moment ago.
func (l *Loop) Well() bool {
	return l.Done() && l.Alive() && !l.failing.Load().old(l.Clock)
}

// old tells whether passes have failed for longer than a moment.
func (f *failure) old(c clock.Clock) bool { return f != nil && c.Since(f.since) >= unwell }
