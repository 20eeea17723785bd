// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

// newPlaced returns a consumer with a namespace whose pods may run only on the virtual node.
func newPlaced(t *testing.T, enforcement v1alpha1.PlacementEnforcement, refuse func(*corev1.Pod) error,
	pods ...*corev1.Pod,
) *consumer {
	t.Helper()
	objects := append(offloadedShop(), offloadingOf("shop", time.Hour, remoteOnly(enforcement)))
	c := newConsumer(t, append(objects, asObjects(pods)...)...)
	c.refuse = refuse
	return c
}

func TestMisplacedPodsAreReportedOrEvicted(t *testing.T) {
	daemon, remote := podOf("daemons", "daemon", time.Hour, ofDaemonSet), podOf("web", "there", time.Hour, offloaded)
	a, b, alone := podOf("web", "a", time.Hour), podOf("web", "b", time.Hour), podOf("", "c", time.Hour)
	young, waiting := podOf("new", "d", time.Second), podOf("full", "waiting", time.Hour, onNode(""))
	deleted := func(pod *corev1.Pod) error { return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name) }
	const oneWaits = " pod(s) run on nodes that spec no longer allows, and 1 wait"
	for _, test := range []struct {
		name        string
		enforcement v1alpha1.PlacementEnforcement
		refuse      func(*corev1.Pod) error
		pods        []*corev1.Pod
		evicted     []string
		retryAfter  time.Duration
		reason      string
		message     string
		events      []string
	}{
		{"in place", v1alpha1.Evict, granted, []*corev1.Pod{remote, daemon}, nil, pendingInterval, "InPlace", "", nil},
		{"reported", v1alpha1.Warn, granted, []*corev1.Pod{a, b, remote}, nil, pendingInterval,
			"Misplaced", "2 pod(s) run on nodes that spec no longer allows:", nil},
		{"evicted", v1alpha1.Evict, granted, []*corev1.Pod{a, b, alone, remote, daemon}, []string{"a", "b", "c"},
			pendingInterval,
			"Evicting", "3 pod(s)", []string{"Misplaced", "Misplaced", "Misplaced"}},
		{"evicted while they wait for a node of an earlier spec", v1alpha1.Evict, granted, []*corev1.Pod{waiting,
			remote},
			[]string{"waiting"}, pendingInterval, "InPlace", "", []string{"Misplaced"}},
		{"reported while they wait", v1alpha1.Warn, granted, []*corev1.Pod{waiting, remote}, nil, pendingInterval,
			"Misplaced", "0" + oneWaits, nil},
		{"reported with those that run", v1alpha1.Warn, granted, []*corev1.Pod{waiting, a, b}, nil, pendingInterval,
			"Misplaced", "2" + oneWaits, nil},
		{"evicted after the least age", v1alpha1.Evict, granted, []*corev1.Pod{a, young}, []string{"a"},
			minEvictionAge - time.Second, "Evicting", "2 pod(s)", []string{"Misplaced"}},
		{"refused by a budget, once for an owner", v1alpha1.Evict, blockedByBudget,
			[]*corev1.Pod{a, b, alone},
			[]string{"a", "c"}, minEvictionDelay, "Evicting", "3 pod(s)",
			[]string{"EvictionBlocked", "EvictionBlocked"}},
		{"refused for another reason", v1alpha1.Evict, func(*corev1.Pod) error { return errors.New("two budgets") },
			[]*corev1.Pod{alone}, []string{"c"}, minEvictionDelay, "Evicting", "1 pod(s)", []string{"EvictionFailed"}},
		{"deleted meanwhile", v1alpha1.Evict, deleted,
			[]*corev1.Pod{alone}, []string{"c"}, pendingInterval, "Evicting", "1 pod(s)", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPlaced(t, test.enforcement, test.refuse, test.pods...)
			retryAfter, inPlace := c.pass()
			if diff := cmp.Diff(test.evicted, c.evicted); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if retryAfter != test.retryAfter {
				t.Errorf("reconciled again after %s, want %s", retryAfter, test.retryAfter)
			}
			if inPlace.Reason != test.reason || !strings.Contains(inPlace.Message, test.message) ||
				(inPlace.Status == metav1.ConditionTrue) != (test.reason == "InPlace") {
				t.Errorf("condition %+v, want %s", inPlace, test.reason)
			}
			if diff := cmp.Diff(test.events, c.reasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitingPodsAreListedAsLongAsAnEarlierSpecMayCreateThem(t *testing.T) {
	c := newPlaced(t, v1alpha1.Evict, granted)
	pass := func(want int, retryAfter time.Duration) {
		t.Helper()
		before := c.lists
		if after, _ := c.pass(); after != retryAfter || c.lists-before != want {
			t.Errorf("%d lists, and again after %s, want %d and %s", c.lists-before, after, want, retryAfter)
		}
	}
	pass(1, pendingInterval)
	// Many changes at once cause one list.
	pass(0, pendingPause)
	c.Clock.Step(pendingPause)
	pass(1, pendingInterval)
	c.Clock.Step(pendingTime - pendingPause)
	pass(1, pendingInterval)
	c.Clock.Step(time.Second)
	pass(0, 0)
	// Another spec restarts pendingTime.
	kittest.Change(c.Cluster, "shop", v1alpha1.NamespaceOffloadingName, &v1alpha1.NamespaceOffloading{},
		func(o *v1alpha1.NamespaceOffloading) {
			o.Spec.PodOffloadingStrategy = v1alpha1.Local
			o.Generation++
		})
	pass(1, pendingInterval)
}

func TestWaitingPodsAreReportedUntilTheyAreDeleted(t *testing.T) {
	waiting := podOf("full", "waiting", time.Hour, onNode(""))
	c := newPlaced(t, v1alpha1.Warn, nil, waiting)
	pass := func(want time.Duration, reason string) {
		t.Helper()
		if retryAfter, inPlace := c.pass(); retryAfter != want || inPlace.Reason != reason {
			t.Errorf("reconciled again after %s, reason %s, want %s and %s", retryAfter, inPlace.Reason, want, reason)
		}
	}
	pass(pendingInterval, "Misplaced")
	c.Clock.Step(pendingTime + time.Second)
	pass(pendingTime, "Misplaced")
	if err := c.Delete(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	c.Clock.Step(pendingTime)
	pass(pendingTime, "InPlace")
	pass(0, "InPlace")
}

func TestEntryThatOnlyDaemonSetsUseIsReconciledAgain(t *testing.T) {
	for enforcement, want := range map[v1alpha1.PlacementEnforcement]int{v1alpha1.Evict: 1, v1alpha1.Warn: 0} {
		c := newConsumer(t, append(offloadedShop(),
			offloadingOf("shop", time.Hour, remoteOnly(enforcement), inRegion("nowhere")),
			podOf("daemons", "daemon", time.Hour, ofDaemonSet, offloaded))...)
		c.pass()
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		if err := c.reconciler.maps.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if got := queue.Len(); got != want {
			t.Errorf("with %s the map is requested %d times, want %d", enforcement, got, want)
		}
		queue.ShutDown()
	}
}

func TestEvictionThatABudgetRefusesBacksOff(t *testing.T) {
	c := newPlaced(t, v1alpha1.Evict, blockedByBudget, podOf("web", "a", time.Hour), podOf("web", "b", time.Hour))
	// The spec is not new.
	offloading := offloadingOf("shop", time.Hour)
	c.reconciler.specs.Store("shop", seenSpec{
		uid: offloading.UID, generation: offloading.Generation, seen: kittest.Epoch.Add(-time.Hour),
	})
	want, tries := minEvictionDelay, 0
	for range 8 {
		retryAfter, inPlace := c.pass()
		if tries++; len(c.evicted) != tries || retryAfter != want {
			t.Fatalf("reconciled again after %s, want %s after %d evictions", retryAfter, want, len(c.evicted))
		}
		if tries > 1 && inPlace.Reason != "EvictionBlocked" {
			t.Errorf("condition %+v, want EvictionBlocked", inPlace)
		}
		// A reconcile in between, caused by an event, changes nothing.
		c.pass()
		if len(c.evicted) != tries {
			t.Fatal("the eviction is retried too soon")
		}
		c.Clock.Step(retryAfter)
		want = min(2*want, maxEvictionDelay)
	}
	c.refuse, c.evicted = granted, nil
	c.pass()
	if diff := cmp.Diff([]string{"a", "b"}, c.evicted); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
}

func TestBlockedEvictionNamesTheBudget(t *testing.T) {
	c := newPlaced(t, v1alpha1.Evict, blockedByBudget, podOf("web", "a", time.Hour))
	c.pass()
	events := c.Recorded()
	if len(events) != 1 || !strings.Contains(events[0], "The disruption budget web needs 2") ||
		!strings.Contains(events[0], "Evicting pod a from node worker is blocked") {
		t.Errorf("events %q", events)
	}
}

func TestOnePassEvictsABoundedNumberOfPods(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxEvictions + 1 {
		pods = append(pods, podOf("", fmt.Sprintf("p%03d", i), time.Hour))
	}
	c := newPlaced(t, v1alpha1.Evict, granted, pods...)
	if retryAfter, _ := c.pass(); len(c.evicted) != maxEvictions || retryAfter != pollInterval {
		t.Errorf("%d evictions, again after %s, want %d and %s", len(c.evicted), retryAfter, maxEvictions, pollInterval)
	}
}

func TestSettledPlacementIsNotWrittenAgain(t *testing.T) {
	c := newPlaced(t, v1alpha1.Warn, nil, podOf("web", "a", time.Hour))
	_, before := c.pass()
	c.Clock.Step(time.Hour)
	wrote := len(c.Writes)
	if _, after := c.pass(); after != before {
		t.Errorf("time alone changed the condition from %+v to %+v", before, after)
	}
	if got := c.WritesSince(wrote); got != nil {
		t.Errorf("nothing changed, and it writes %q", got)
	}
}

func TestPodsThatMayRunAnywhereAreNotWatched(t *testing.T) {
	c := newConsumer(t, append(offloadedShop(), offloadingOf("shop", time.Hour), podOf("", "web", 0, offloaded))...)
	if retryAfter, inPlace := c.pass(); retryAfter != pendingInterval || inPlace.Reason != "InPlace" {
		t.Errorf("reconciled again after %s, condition %+v", retryAfter, inPlace)
	}
	if len(c.watches.watched) > 0 {
		t.Errorf("watches the pods of %q", c.watches.watched)
	}
	if diff := cmp.Diff([]string{"shop"}, c.watches.forgotten); diff != "" {
		t.Errorf("watches that end (-want +got):\n%s", diff)
	}
}
