// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
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

func TestWhatFailsIsTriedAgain(t *testing.T) {
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

func TestAPassCanAskForTheNext(t *testing.T) {
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

func TestRunReturnsWhenThePassesHaveEnded(t *testing.T) {
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

func TestHandleFollowsMissedDeletions(t *testing.T) {
	keys := make(chan cache.ObjectName, 1)
	controller := New("test", 1, func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
		keys <- key
		return 0, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go controller.Run(ctx)
	controller.Handle(ObjectKeys).OnDelete(cache.DeletedFinalStateUnknown{
		Key: "liqo/milan", Obj: &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "milan"}},
	})
	select {
	case key := <-keys:
		if key != (cache.ObjectName{Namespace: "liqo", Name: "milan"}) {
			t.Errorf("key %v", key)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the deletion led to no pass")
	}
}
