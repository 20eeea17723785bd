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
	// debounce is the time between a change and the pass of the Loop for it, during which further changes are
	// collected.
	debounce = 20 * time.Millisecond
	// firstRetry is the delay after a failed pass. It doubles with each failure, up to longestRetry.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 10 * time.Second
	// hangTimeout is the duration after which a pass counts as hanging, so that the liveness probe fails.
	hangTimeout = time.Minute
	// unhealthyAfter is the time for which passes may fail before Ready returns an error and Healthy reports false.
	unhealthyAfter = 15 * time.Second
)

// Loop runs passes. A pass compares the node's kernel with the state computed from the API objects, and writes
// the differences. One pass runs for each change, one after each Resync without a change, and one with backoff
// after each failure.
type Loop struct {
	// Pass runs one pass. It must write nothing if the kernel already has the computed state.
	Pass func(ctx context.Context) error
	// Resync is the time between passes while nothing changes.
	Resync time.Duration
	Clock  clock.Clock

	wake    chan struct{}
	started atomic.Int64            // start of the current pass in ns since the epoch; 0 if none runs
	failing atomic.Pointer[failure] // nil if the last pass succeeded
	done    atomic.Bool
}

// failure is an uninterrupted series of failed passes: the time of the first failure and the error of the last
// one.
type failure struct {
	since time.Time
	err   error
}

// Error returns the last error in one line.
func (f *failure) Error() string { return strings.ReplaceAll(f.err.Error(), "\n", "; ") }

// NewLoop returns a loop that calls pass. Run starts it.
func NewLoop(resync time.Duration, pass func(ctx context.Context) error) *Loop {
	return &Loop{Pass: pass, Resync: resync, Clock: clock.RealClock{}, wake: make(chan struct{}, 1)}
}

// Wake triggers a pass. It never blocks.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run runs passes until the context ends.
func (l *Loop) Run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		l.started.Store(l.Clock.Now().UnixNano())
		err := l.Pass(ctx)
		l.started.Store(0)
		wait := l.Resync
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			klog.FromContext(ctx).Error(err, "Configuring the node's kernel failed, retrying", "after", retry)
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
			l.debounce(ctx)
		}
		timer.Stop()
	}
}

// Follower watches a network namespace.
type Follower interface {
	// Follow calls changed whenever an object that the agents own may have changed, until the context ends. It
	// fails if the kernel dropped notifications or cannot be watched.
	Follow(ctx context.Context, changed func()) error
}

// Follow triggers a pass whenever the namespace changes, until the context ends. When watching fails it also
// triggers a pass, as changes may have been missed, and watches again a second later.
func (l *Loop) Follow(ctx context.Context, namespace Follower) {
	for ctx.Err() == nil {
		if err := namespace.Follow(ctx, l.Wake); err != nil {
			klog.FromContext(ctx).Error(err, "Kernel notifications may have been missed")
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

// debounce blocks for the duration of the constant debounce, or until the context ends, and drops the calls of Wake in
// that time.
func (l *Loop) debounce(ctx context.Context) {
	timer := l.Clock.NewTimer(debounce)
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

// Alive reports whether the current pass has run for less than hangTimeout.
func (l *Loop) Alive() bool {
	started := l.started.Load()
	return started == 0 || l.Clock.Since(time.Unix(0, started)) < hangTimeout
}

// Done reports whether a pass has succeeded since the start.
func (l *Loop) Done() bool { return l.done.Load() }

// Ready returns an error if no pass has succeeded yet, if the current pass hangs, or if all passes have failed for
// unhealthyAfter or longer.
func (l *Loop) Ready() error {
	failing := l.failing.Load()
	switch {
	case !l.Alive():
		return errHung
	case !l.Done() && failing == nil:
		return errors.New("the node's kernel is not configured yet")
	case !l.Done():
		return fmt.Errorf("the node's kernel is not configured yet: %w", failing)
	case failing.persists(l.Clock):
		return fmt.Errorf("configuring the node's kernel has failed for %s or longer: %w", unhealthyAfter, failing)
	}
	return nil
}

// Live returns an error if the current pass hangs.
func (l *Loop) Live() error {
	if !l.Alive() {
		return errHung
	}
	return nil
}

var errHung = errors.New("configuring the node's kernel hangs")

// Healthy reports whether Ready returns no error.
func (l *Loop) Healthy() bool {
	return l.Done() && l.Alive() && !l.failing.Load().persists(l.Clock)
}

// persists reports whether passes have failed for unhealthyAfter or longer.
func (f *failure) persists(c clock.Clock) bool { return f != nil && c.Since(f.since) >= unhealthyAfter }
