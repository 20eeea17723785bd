// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"testing"
	"time"
)

func start(t *testing.T, reconcile Reconcile[string]) (*Controller[string], func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	controller := New("test", 2, reconcile)
	done := make(chan struct{})
	go func() { defer close(done); controller.Run(ctx) }()
	stop := func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return controller, stop
}

func receive(t *testing.T, passes <-chan string) string {
	t.Helper()
	select {
	case key := <-passes:
		return key
	case <-time.After(10 * time.Second):
		t.Fatal("no pass within 10 s")
		return ""
	}
}

func TestFailedPassIsRetried(t *testing.T) {
	passes := make(chan string, 10)
	failures := 2
	controller, _ := start(t, func(_ context.Context, key string) (time.Duration, error) {
		passes <- key
		if failures--; failures >= 0 {
			return 0, errors.New("not yet")
		}
		return 0, nil
	})
	controller.Add("a")
	for range 3 {
		if key := receive(t, passes); key != "a" {
			t.Fatalf("pass over %q", key)
		}
	}
}

func TestPassCanRequestTheNext(t *testing.T) {
	passes := make(chan string, 10)
	again := time.Millisecond
	controller, _ := start(t, func(_ context.Context, key string) (time.Duration, error) {
		passes <- key
		after := again
		again = 0
		return after, nil
	})
	controller.Add("a")
	receive(t, passes)
	receive(t, passes)
}

func TestRunReturnsWhenAllPassesHaveEnded(t *testing.T) {
	passes, release := make(chan string, 1), make(chan struct{})
	finished := false
	controller, stop := start(t, func(context.Context, string) (time.Duration, error) {
		passes <- "begun"
		<-release
		finished = true
		return 0, nil
	})
	controller.Add("a")
	receive(t, passes)
	close(release)
	stop()
	if !finished {
		t.Error("Run returned before the pass had ended")
	}
}
