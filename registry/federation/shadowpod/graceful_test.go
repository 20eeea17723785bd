// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/test/etcd"
)

func TestDeletionHasTheGracePeriodOfAPod(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "offer", amounts("cpu", "100", "pods", "100"))
	for _, test := range []struct {
		name  string
		own   *int64
		ended bool
		// requested has the grace periods of consecutive deletions, and want the grace periods of the shadow pod after
		// each of them.
		requested []*int64
		want      []int64
	}{
		{"default", nil, false, []*int64{nil}, []int64{30}},
		{"the pod's grace period", ptr.To[int64](7), false, []*int64{nil}, []int64{7}},
		{"zero in the pod becomes one second", new(int64), false, []*int64{nil}, []int64{1}},
		{"the deletion's grace period", ptr.To[int64](7), false, []*int64{ptr.To[int64](300)}, []int64{300}},
		{"second deletion shortens the grace period", nil, false, []*int64{nil, ptr.To[int64](5), ptr.To[int64](0)},
			[]int64{30, 5, 0}},
		{"second deletion does not extend the grace period", nil, false, []*int64{ptr.To[int64](5), ptr.To[int64](60), nil}, []int64{5, 5, 5}},
		{"zero", nil, false, []*int64{ptr.To[int64](0)}, []int64{0}},
		{"default for a finished pod is one second", ptr.To[int64](7), true, []*int64{nil, ptr.To[int64](0)},
			[]int64{1, 0}},
		{"longer than one second for a finished pod", nil, true, []*int64{ptr.To[int64](300)}, []int64{1}},
		{"zero for a finished pod", nil, true, []*int64{ptr.To[int64](0)}, []int64{0}},
		{"too long in the pod", ptr.To[int64](math.MaxInt64), false, []*int64{nil}, []int64{math.MaxInt32}},
		{"too long in the deletion", nil, false, []*int64{ptr.To[int64](math.MaxInt64)}, []int64{math.MaxInt32}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := in(t.Context(), "web")
			pod := shadowPod("web", "one", amounts("cpu", "1"))
			pod.Spec.Pod.TerminationGracePeriodSeconds = test.own
			if _, err := s.pods.Create(ctx, pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.ended {
				if err := s.finish(ctx, "web", "one"); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now().Truncate(time.Second)
			for i, grace := range test.requested {
				if _, _, err := s.pods.Delete(ctx, "one", rest.ValidateAllObjectFunc,
					&metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
					t.Fatal(err)
				}
				stored, err := s.pods.Get(ctx, "one", &metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				deleted := stored.(*federation.ShadowPod)
				if got := ptr.Deref(deleted.DeletionGracePeriodSeconds, -1); got != test.want[i] {
					t.Errorf("deletion %d: got %d seconds, want %d", i+1, got, test.want[i])
				}
				grace := time.Duration(test.want[i]) * time.Second
				if at := deleted.DeletionTimestamp.Time; at.Before(begun.Add(grace)) || at.After(time.Now().Add(grace)) {
					t.Errorf("deletion %d: got deletionTimestamp %s, want %s after the first deletion", i+1, at, grace)
				}
			}
			if err := s.release(ctx, "web", "one"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("without finalizers: got %v, want NotFound", err)
			}
		})
	}
}

// Of two concurrent deletions, the store calls AfterDelete for the second one as if the shadow pod had been removed.
// Its pod still runs, so it must still count.
func TestShadowPodCountsDuringConcurrentDeletions(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "offer", amounts("cpu", "1", "pods", "10"))
	s.mustCreate(t, "web", "one", amounts("cpu", "1"))
	ctx := in(t.Context(), "web")
	remove := func(validation rest.ValidateObjectFunc) error {
		_, _, err := s.pods.Delete(ctx, "one", validation, &metav1.DeleteOptions{})
		return err
	}
	var first sync.Once
	err := remove(func(context.Context, runtime.Object) (err error) {
		// The other deletion is complete before the outer one writes.
		first.Do(func() { err = remove(rest.ValidateAllObjectFunc) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mustRefuse(t, "web", "two", amounts("cpu", "1"))
	if err := s.release(ctx, "web", "one"); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(t, "web", "two", amounts("cpu", "1"))
}

func TestShadowPodWithoutFinalizersIsDeletedAtOnce(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "offer", amounts("cpu", "100", "pods", "100"))
	ctx := in(t.Context(), "web")
	s.mustCreate(t, "web", "one", amounts("cpu", "1"))
	if err := s.release(ctx, "web", "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); err != nil {
		t.Fatalf("before the deletion: %v", err)
	}
	if _, _, err := s.pods.Delete(ctx, "one", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: got %v, want NotFound", err)
	}
}
