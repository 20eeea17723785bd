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

// Time is that of the bubbles that the tests run in: sleeping takes none.

func TestPassesAreMadeWhenSomethingChangesAfterAFailureAndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var passes atomic.Int32
		var works atomic.Bool
		loop := NewLoop(time.Minute, func(context.Context) error {
			passes.Add(1)
			if !works.Load() {
				return errors.New("no luck")
			}
			return nil
		})
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		time.Sleep(time.Second)
		// At once, after 0.2 and after 0.6 seconds.
		if passes.Load() != 3 || loop.Done() {
			t.Errorf("%d passes in the first second, while all fail; done: %v", passes.Load(), loop.Done())
		}
		works.Store(true)
		time.Sleep(time.Second)
		if passes.Load() != 4 || !loop.Done() || !loop.Well() {
			t.Errorf("%d passes after one succeeded; done: %v, well: %v", passes.Load(), loop.Done(), loop.Well())
		}
		for range 100 {
			loop.Wake()
		}
		time.Sleep(time.Second)
		if passes.Load() != 5 {
			t.Errorf("%d passes after a hundred changes at once", passes.Load())
		}
		time.Sleep(10 * time.Minute)
		if passes.Load() != 15 {
			t.Errorf("%d passes after ten minutes without a change", passes.Load())
		}
		cancel()
		<-done
	})
}

func TestALoopIsUnwellOnceItHasFailedForAWhile(t *testing.T) {
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
		says := func(what, want string) {
			t.Helper()
			if err := loop.Ready(); err == nil || err.Error() != want {
				t.Errorf("%s it says: %v", what, err)
			}
		}
		says("before it runs", "no pass over the node's kernel has succeeded yet")
		fail("no iptables")
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		synctest.Wait()
		says("after the first pass", "no pass over the node's kernel has succeeded yet: no iptables")
		fail()
		time.Sleep(time.Minute)
		if err := loop.Ready(); err != nil {
			t.Errorf("after a pass has succeeded it says: %v", err)
		}
		fail("no luck")
		time.Sleep(unwell - time.Second)
		if err := loop.Ready(); !loop.Well() || err != nil {
			t.Errorf("unwell before its time: %v", err)
		}
		fail("no route", "no rule")
		time.Sleep(3 * time.Second)
		says("after a while", "passes over the node's kernel have failed for 15s or longer: no route; no rule")
		if loop.Well() || !loop.Done() || loop.Live() != nil || loop.Ready() == nil {
			t.Errorf("well: %v, done: %v, live: %v, ready: %v", loop.Well(), loop.Done(), loop.Live(), loop.Ready())
		}
		fail()
		time.Sleep(2 * longestRetry)
		if err := loop.Ready(); !loop.Well() || err != nil {
			t.Errorf("unwell after a pass has succeeded: %v", err)
		}
		cancel()
		<-done
	})
}

func TestALoopThatDoesNotComeToAnEndIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		loop := NewLoop(time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		time.Sleep(stuck - time.Second)
		if !loop.Alive() {
			t.Error("dead before its time")
		}
		time.Sleep(2 * time.Second)
		if loop.Alive() {
			t.Error("alive")
		}
		cancel()
		<-done
	})
}
