// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPassesAreMadeWhenSomethingChangesAfterAFailureAndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		passes, fail := 0, true
		loop := NewLoop(time.Minute, func(context.Context) error {
			passes++
			if fail {
				return errors.New("no luck")
			}
			return nil
		})
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		time.Sleep(time.Second)
		// At once, after 0.2 and after 0.6 seconds.
		if passes != 3 || loop.Done() {
			t.Errorf("%d passes in the first second, while all fail; done: %v", passes, loop.Done())
		}
		fail = false
		time.Sleep(time.Second)
		if passes != 4 || !loop.Done() {
			t.Errorf("%d passes after one succeeded; done: %v", passes, loop.Done())
		}
		for range 100 {
			loop.Wake()
		}
		time.Sleep(time.Second)
		if passes != 5 {
			t.Errorf("%d passes after a hundred changes at once", passes)
		}
		time.Sleep(10 * time.Minute)
		if passes != 15 {
			t.Errorf("%d passes after ten minutes without a change", passes)
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
