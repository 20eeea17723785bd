// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The tests run in synctest bubbles: time is simulated.

func TestPassesRunOnChangesRetriesAndResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var passes atomic.Int32
		var succeed atomic.Bool
		loop := NewLoop(time.Minute, func(context.Context) error {
			passes.Add(1)
			if !succeed.Load() {
				return errors.New("injected failure")
			}
			return nil
		})
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		time.Sleep(time.Second)
		// The first pass runs at once, the retries after 0.2 and 0.6 seconds.
		if passes.Load() != 3 || loop.Done() {
			t.Errorf("%d passes in the first second of failures; done: %v", passes.Load(), loop.Done())
		}
		succeed.Store(true)
		time.Sleep(time.Second)
		if passes.Load() != 4 || !loop.Done() || !loop.Healthy() {
			t.Errorf("%d passes after the first success; done: %v, healthy: %v", passes.Load(), loop.Done(), loop.Healthy())
		}
		for range 100 {
			loop.Wake()
		}
		time.Sleep(time.Second)
		if passes.Load() != 5 {
			t.Errorf("%d passes after a hundred simultaneous changes", passes.Load())
		}
		time.Sleep(10 * time.Minute)
		if passes.Load() != 15 {
			t.Errorf("%d passes after ten minutes without changes", passes.Load())
		}
		cancel()
		<-done
	})
}

func TestLoopIsUnhealthyAfterPersistentFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var fails atomic.Pointer[error]
		fail := func(texts ...string) {
			var all []error
			for _, text := range texts {
				all = append(all, errors.New(text))
			}
			err := errors.Join(all...)
			fails.Store(&err)
		}
		loop := NewLoop(time.Second, func(context.Context) error { return *fails.Load() })
		expectReady := func(what, want string) {
			t.Helper()
			if err := loop.Ready(); err == nil || err.Error() != want {
				t.Errorf("%s, Ready returned %v", what, err)
			}
		}
		expectReady("before the first pass", "the node's kernel is not configured yet")
		fail("no iptables")
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		synctest.Wait()
		expectReady("after the first pass", "the node's kernel is not configured yet: no iptables")
		fail()
		time.Sleep(time.Minute)
		if err := loop.Ready(); err != nil {
			t.Errorf("after a successful pass, Ready returned %v", err)
		}
		fail("injected failure")
		time.Sleep(unhealthyAfter - time.Second)
		if err := loop.Ready(); !loop.Healthy() || err != nil {
			t.Errorf("unhealthy before unhealthyAfter: %v", err)
		}
		fail("no route", "no rule")
		time.Sleep(3 * time.Second)
		expectReady("after unhealthyAfter", "configuring the node's kernel has failed for 15s or longer: no route; no rule")
		if loop.Healthy() || !loop.Done() || loop.Live() != nil || loop.Ready() == nil {
			t.Errorf("healthy: %v, done: %v, live: %v, ready: %v", loop.Healthy(), loop.Done(), loop.Live(), loop.Ready())
		}
		fail()
		time.Sleep(2 * longestRetry)
		if err := loop.Ready(); !loop.Healthy() || err != nil {
			t.Errorf("unhealthy after a successful pass: %v", err)
		}
		cancel()
		<-done
	})
}

func TestLoopWithAHangingPassIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		loop := NewLoop(time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		time.Sleep(hangTimeout - time.Second)
		if !loop.Alive() {
			t.Error("not alive before hangTimeout")
		}
		time.Sleep(2 * time.Second)
		if loop.Alive() {
			t.Error("alive after hangTimeout")
		}
		cancel()
		<-done
	})
}
