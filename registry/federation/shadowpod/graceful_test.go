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

func TestShadowPodIsDeletedAsAPodIs(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.grant(t, "milan", "offer", amounts("cpu", "100", "pods", "100"))
	for _, test := range []struct {
		name  string
		own   *int64
		ended bool
		// requested are the grace periods of consecutive deletions, want those that the
		// shadow pod has.
		requested []*int64
		want      []int64
	}{
		{"with the grace period of most pods", nil, false, []*int64{nil}, []int64{30}},
		{"with its pod's", ptr.To[int64](7), false, []*int64{nil}, []int64{7}},
		{"with a second if its pod has none, or that would run and not count", new(int64), false, []*int64{nil}, []int64{1}},
		{"with the one of the deletion", ptr.To[int64](7), false, []*int64{ptr.To[int64](300)}, []int64{300}},
		{"with less once it is deleted again", nil, false, []*int64{nil, ptr.To[int64](5), ptr.To[int64](0)},
			[]int64{30, 5, 0}},
		{"but never with more", nil, false, []*int64{ptr.To[int64](5), ptr.To[int64](60), nil}, []int64{5, 5, 5}},
		{"with none", nil, false, []*int64{ptr.To[int64](0)}, []int64{0}},
		{"once it has ended, with the moment in which it is read", ptr.To[int64](7), true, []*int64{nil, ptr.To[int64](0)},
			[]int64{1, 0}},
		{"and with no more, whoever asks", nil, true, []*int64{ptr.To[int64](300)}, []int64{1}},
		{"or with none, once it was read", nil, true, []*int64{ptr.To[int64](0)}, []int64{0}},
		{"with one that is a date", ptr.To[int64](math.MaxInt64), false, []*int64{nil}, []int64{math.MaxInt32}},
		{"with one that is a date, whoever asks", nil, false, []*int64{ptr.To[int64](math.MaxInt64)}, []int64{math.MaxInt32}},
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
				going := stored.(*federation.ShadowPod)
				if got := ptr.Deref(going.DeletionGracePeriodSeconds, -1); got != test.want[i] {
					t.Errorf("deletion %d: %d seconds are left, want %d", i+1, got, test.want[i])
				}
				grace := time.Duration(test.want[i]) * time.Second
				if over := going.DeletionTimestamp.Time; over.Before(begun.Add(grace)) || over.After(time.Now().Add(grace)) {
					t.Errorf("deletion %d: that is over at %s, want %s after it began", i+1, over, grace)
				}
			}
			if err := s.letGo(ctx, "web", "one"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("nothing holds it, and it is there: %v", err)
			}
		})
	}
}

// The store reports the second of two deletions at a time as if the shadow pod were
// gone. It runs and counts.
func TestShadowPodThatIsDeletedTwiceAtATimeCounts(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.grant(t, "milan", "offer", amounts("cpu", "1", "pods", "10"))
	s.mustCreate(t, "web", "one", amounts("cpu", "1"))
	ctx := in(t.Context(), "web")
	remove := func(validation rest.ValidateObjectFunc) error {
		_, _, err := s.pods.Delete(ctx, "one", validation, &metav1.DeleteOptions{})
		return err
	}
	var first sync.Once
	err := remove(func(context.Context, runtime.Object) (err error) {
		// The other one comes between its reading and its writing.
		first.Do(func() { err = remove(rest.ValidateAllObjectFunc) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mustRefuse(t, "web", "two", amounts("cpu", "1"))
	if err := s.letGo(ctx, "web", "one"); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(t, "web", "two", amounts("cpu", "1"))
}

func TestShadowPodWithoutFinalizersIsDeletedAtOnce(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.grant(t, "milan", "offer", amounts("cpu", "100", "pods", "100"))
	ctx := in(t.Context(), "web")
	s.mustCreate(t, "web", "one", amounts("cpu", "1"))
	if err := s.letGo(ctx, "web", "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); err != nil {
		t.Fatalf("nobody has deleted it: %v", err)
	}
	if _, _, err := s.pods.Delete(ctx, "one", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pods.Get(ctx, "one", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
}
