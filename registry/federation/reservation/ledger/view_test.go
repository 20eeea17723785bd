// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/test/etcd"
)

func TestPolicyReceivesTheNumberOfObjectsThatAreOver(t *testing.T) {
	l, _ := ledgersOf(t, etcd.Start(t), true, count(1))
	for i := range mayBeOver - 1 {
		pod := onePod(types.UID(fmt.Sprint(i)), fmt.Sprint(i+2))
		pod.Status.Phase = corev1.PodSucceeded
		if err := l.view.observe(watch.Event{Type: watch.Added, Object: &pod}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Reserve(t.Context(), "milan", "last", count(1)); err != nil {
		t.Fatal(err)
	}
	last := onePod("last", "5000")
	l.Created(last.UID, &last)
	last.ResourceVersion, last.Status.Phase = "5001", corev1.PodFailed
	l.Changed(&last, false)
	if _, err := l.Reserve(t.Context(), "milan", "one-too-many", count(1)); !errors.Is(err, errOver) {
		t.Errorf("a creation: got %v, want %v", err, errOver)
	}
	if _, err := l.Check(t.Context(), "milan", count(1)); !errors.Is(err, errOver) {
		t.Errorf("a dry run: got %v, want %v", err, errOver)
	}
	if _, err := l.Reserve(t.Context(), "turin", "first", count(1)); err != nil {
		t.Errorf("another account is refused: %v", err)
	}
	l.Changed(&last, true)
	if _, err := l.Reserve(t.Context(), "milan", "next", count(1)); err != nil {
		t.Errorf("after one is deleted: %v", err)
	}
}

// TestViewIsExactAtAnyLagOfTheWatch creates, resizes, finishes and removes shadow pods. The view receives each change
// once directly, like a write of its own server, and once from a watch that lags.
func TestViewIsExactAtAnyLagOfTheWatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, revision := newView(kindOf(nil)), 1
		if _, err := v.replace(&federation.ShadowPodList{ListMeta: listMeta("1")}); err != nil {
			t.Fatal(err)
		}
		stored := map[types.UID]federation.ShadowPod{}
		var behind []watch.Event
		record := func(kind watch.EventType, pod federation.ShadowPod) federation.ShadowPod {
			revision++
			pod.ResourceVersion = fmt.Sprint(revision)
			behind = append(behind, watch.Event{Type: kind, Object: pod.DeepCopy()})
			return pod
		}
		// one calls change with a random stored shadow pod for which selects returns true, if there is any.
		one := func(t *rapid.T, selects func(federation.ShadowPod) bool, change func(federation.ShadowPod)) {
			var uids []types.UID
			for i := range revision + 1 {
				uid := types.UID(fmt.Sprint(i))
				if pod, ok := stored[uid]; ok && selects(pod) {
					uids = append(uids, uid)
				}
			}
			if len(uids) > 0 {
				change(stored[rapid.SampledFrom(uids).Draw(t, "which")])
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) {
				pod := record(watch.Added, onePod(types.UID(fmt.Sprint(revision)), ""))
				stored[pod.UID] = pod
				v.add(&pod, uint64(revision))
			},
			"finish": func(t *rapid.T) {
				running := func(pod federation.ShadowPod) bool { return pod.Status.Phase == "" }
				one(t, running, func(pod federation.ShadowPod) {
					pod.Status.Phase = corev1.PodSucceeded
					pod = record(watch.Modified, pod)
					stored[pod.UID] = pod
					v.change(&pod, false)
				})
			},
			"resize": func(t *rapid.T) {
				running := func(pod federation.ShadowPod) bool { return pod.Status.Phase == "" }
				one(t, running, func(pod federation.ShadowPod) {
					pod.Generation = rapid.Int64Range(1, 5).Draw(t, "size")
					pod = record(watch.Modified, pod)
					stored[pod.UID] = pod
					v.change(&pod, false)
				})
			},
			"remove": func(t *rapid.T) {
				anyPod := func(federation.ShadowPod) bool { return true }
				one(t, anyPod, func(pod federation.ShadowPod) {
					pod = record(watch.Deleted, pod)
					delete(stored, pod.UID)
					v.change(&pod, true)
				})
			},
			"catch up": func(t *rapid.T) {
				n := rapid.IntRange(0, len(behind)).Draw(t, "events")
				for _, event := range behind[:n] {
					if err := v.observe(event); err != nil {
						t.Fatal(err)
					}
				}
				behind = behind[n:]
			},
			"": func(t *rapid.T) {
				running, finished, uses := 0, 0, sum(0)
				for _, pod := range stored {
					if pod.Status.Phase == "" {
						running++
						uses += sum(max(1, pod.Generation))
					} else {
						finished++
					}
				}
				want := Used[sum]{Objects: running, Sum: uses, Over: finished}
				if diff := cmp.Diff(want, v.usedWith("milan", nil)); diff != "" {
					t.Fatalf("usage (-want +got):\n%s", diff)
				}
			},
		})
	})
}
