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

func finishedPod(uid types.UID, revision string) federation.ShadowPod {
	pod := onePod(uid, revision)
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

func TestAConsumerMayKeepAsManyFinishedShadowPodsAsItMayRun(t *testing.T) {
	for _, test := range []struct {
		name    string
		granted corev1.ResourceList
		want    int
	}{
		{"nothing is granted", nil, 1000},
		{"few are granted", count(1), 1000},
		{"many are granted", count(5000), 5000},
		{"more are granted than anybody keeps", count(1_000_000), 12500},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := mayFinish(test.granted); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestAConsumerThatKeepsTooManyFinishedShadowPodsGetsNoMore(t *testing.T) {
	l, _ := ledgersOf(t, etcd.Start(t), true, count(1))
	for i := range leastFinished - 1 {
		pod := finishedPod(types.UID(fmt.Sprint(i)), fmt.Sprint(i+2))
		if err := l.view.observe(watch.Event{Type: watch.Added, Object: &pod}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Reserve(t.Context(), "milan", "last", count(1)); err != nil {
		t.Fatal(err)
	}
	last := onePod("last", "5000")
	l.Created(&last)
	last.Status.Phase = corev1.PodFailed
	l.Changed(&last, false)
	for what, ask := range map[string]func() error{
		"a creation": func() error { return l.Reserve(t.Context(), "milan", "one-too-many", count(1)) },
		"a dry run":  func() error { return l.Check(t.Context(), "milan", count(1)) },
	} {
		var finished *ErrTooManyFinished
		if err := ask(); !errors.As(err, &finished) {
			t.Fatalf("%s gets %v", what, err)
		}
		if diff := cmp.Diff(ErrTooManyFinished{Consumer: "milan", Finished: leastFinished, Most: leastFinished}, *finished); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
	}
	if err := l.Reserve(t.Context(), "turin", "of-another", count(1)); err != nil {
		t.Errorf("another consumer is refused: %v", err)
	}
	l.Changed(&last, true)
	if err := l.Reserve(t.Context(), "milan", "next", count(1)); err != nil {
		t.Errorf("one is deleted, and still: %v", err)
	}
}

// TestTheViewIsExactHoweverFarTheWatchIsBehind creates, finishes and removes
// shadow pods, of which the view is told at once, and again by a watch that
// comes later.
func TestTheViewIsExactHoweverFarTheWatchIsBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, revision := newView(), 1
		if err := v.replace(&federation.ShadowPodList{ListMeta: listMeta("1")}); err != nil {
			t.Fatal(err)
		}
		stored := map[types.UID]federation.ShadowPod{}
		var behind []watch.Event
		happens := func(kind watch.EventType, pod federation.ShadowPod) federation.ShadowPod {
			revision++
			pod.ResourceVersion = fmt.Sprint(revision)
			behind = append(behind, watch.Event{Type: kind, Object: pod.DeepCopy()})
			return pod
		}
		some := func(t *rapid.T, wanted func(federation.ShadowPod) bool) types.UID {
			var uids []types.UID
			for i := range revision + 1 {
				uid := types.UID(fmt.Sprint(i))
				if pod, ok := stored[uid]; ok && wanted(pod) {
					uids = append(uids, uid)
				}
			}
			if len(uids) == 0 {
				t.Skip("there is none")
			}
			return rapid.SampledFrom(uids).Draw(t, "which")
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) {
				pod := happens(watch.Added, onePod(types.UID(fmt.Sprint(revision)), ""))
				stored[pod.UID] = pod
				v.add(&pod, uint64(revision))
			},
			"finish": func(t *rapid.T) {
				pod := stored[some(t, func(pod federation.ShadowPod) bool { return pod.Status.Phase == "" })]
				pod.Status.Phase = corev1.PodSucceeded
				pod = happens(watch.Modified, pod)
				stored[pod.UID] = pod
				v.change(&pod, false)
			},
			"remove": func(t *rapid.T) {
				pod := happens(watch.Deleted, stored[some(t, func(federation.ShadowPod) bool { return true })])
				delete(stored, pod.UID)
				v.change(&pod, true)
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
				var running, finished int64
				for _, pod := range stored {
					if pod.Status.Phase == "" {
						running++
					} else {
						finished++
					}
				}
				used, over := v.usedWith("milan", nil)
				if pods := used[corev1.ResourcePods]; pods.Value() != running || int64(over) != finished {
					t.Fatalf("%s run and %d are finished in the view; it is %d and %d", pods.String(), over, running, finished)
				}
			},
		})
	})
}
