// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

// newUnoffloading returns a consumer with a namespace whose NamespaceOffloading was deleted ago in the past, and whose
// status reports the unoffloading.
func newUnoffloading(t *testing.T, ago time.Duration, refuse func(*corev1.Pod) error, pods ...*corev1.Pod) *consumer {
	t.Helper()
	objects := append(offloadedShop(), offloadingOf("shop", time.Hour, remoteOnly(v1alpha1.Warn), deletedSince(ago)))
	c := newConsumer(t, append(objects, asObjects(pods)...)...)
	c.refuse = refuse
	if _, inPlace := c.pass(); len(c.evicted)+len(c.deleted()) > 0 {
		t.Fatalf("pods are removed before that is reported: %q, %q, %+v", c.evicted, c.deleted(), inPlace)
	}
	return c
}

// deleteNamespace deletes namespace shop, which stays because of its finalizer.
func (c *consumer) deleteNamespace() {
	c.t.Helper()
	if err := c.Delete(c.t.Context(), labelled("shop")); err != nil {
		c.t.Fatal(err)
	}
}

func TestPodsOfAnUnoffloadedNamespaceAreEvicted(t *testing.T) {
	a, b, other := podOf("web", "a", time.Hour, offloaded), podOf("web", "b", time.Hour, offloaded),
		podOf("db", "c", time.Hour, offloaded)
	alone, young := podOf("", "d", time.Hour, offloaded), podOf("new", "e", time.Second, offloaded)
	local, finished := podOf("web", "local", time.Hour), podOf("job", "finished", time.Hour, offloaded, succeeded)
	daemon, endingPod := podOf("daemons", "daemon", time.Hour, offloaded, ofDaemonSet),
		podOf("web", "ending", time.Hour, offloaded, ending)
	tolerating := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{
			{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpExists},
		}
	}
	requiringLocal := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{
						Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn,
						Values: []string{v1alpha1.TypeVirtualNode},
					},
				}}},
			},
		}}
	}
	ofMove := func(pod *corev1.Pod) { pod.Labels = map[string]string{volume.LabelMove: "m"} }
	waiting := podOf("full", "waiting", time.Hour, onNode(""), tolerating)
	waitingForLocal := podOf("full", "waiting-here", time.Hour, onNode(""), tolerating, requiringLocal)
	sender, receiver := podOf("", "sender", time.Hour, offloaded, ofMove),
		podOf("full", "receiver", time.Hour, onNode(""), tolerating, ofMove)
	twoBudgets := func(*corev1.Pod) error { return errors.New("two budgets") }
	for _, test := range []struct {
		name            string
		ago             time.Duration
		deleted         bool
		refuse          func(*corev1.Pod) error
		pods            []*corev1.Pod
		evicts, deletes []string
		reason          string
		events          []string
	}{
		{"no pods", 0, false, granted, []*corev1.Pod{local, finished, daemon}, nil, nil, "InPlace", nil},
		{"pods of a move", 0, false, granted, []*corev1.Pod{sender, receiver}, nil, nil, "InPlace", nil},
		{"pods of controllers are evicted", 0, false, granted, []*corev1.Pod{a, other, local},
			[]string{"a", "c"}, nil, "Evicting", []string{"Unoffloaded", "Unoffloaded"}},
		{"a pod without an owner is deleted", 0, false, granted, []*corev1.Pod{a, alone},
			[]string{"a"}, []string{"d"}, "Evicting", []string{"Unoffloaded"}},
		{"a pod without an owner is deleted while a budget blocks others", 0, false, blockedByBudget, []*corev1.Pod{a, alone},
			[]string{"a"}, []string{"d"}, "EvictionBlocked", []string{"EvictionBlocked"}},
		{"pods that wait for a virtual node are evicted", 0, false, granted, []*corev1.Pod{waiting, waitingForLocal},
			[]string{"waiting"}, nil, "Evicting", []string{"Unoffloaded"}},
		{"a pod that is ending is awaited", 0, false, granted, []*corev1.Pod{endingPod}, nil, nil,
			"Ending",
			nil},
		{"a blocked eviction is requested once for an owner", 0, false, blockedByBudget, []*corev1.Pod{a, b, other},
			[]string{"a", "c"}, nil, "EvictionBlocked", []string{"EvictionBlocked", "EvictionBlocked"}},
		{"a pod below the least age is not evicted yet", 0, false, granted, []*corev1.Pod{young}, nil, nil, "Evicting", nil},
		{"an eviction that fails is retried", 0, false, twoBudgets, []*corev1.Pod{a},
			[]string{"a"}, nil, "EvictionBlocked", []string{"EvictionFailed"}},
		{"pods are evicted until the eviction deadline", evictionTime - time.Second, false, blockedByBudget, []*corev1.Pod{a},
			[]string{"a"}, nil, "EvictionBlocked", []string{"EvictionBlocked"}},
		{"pods are deleted after the eviction deadline", evictionTime, false, blockedByBudget, []*corev1.Pod{a, b,
			endingPod},
			nil, []string{"a", "b"}, "Ending", []string{"EvictionTimedOut", "EvictionTimedOut"}},
		{"pods of a namespace that is being deleted are deleted", 0, true, blockedByBudget, []*corev1.Pod{a, alone},
			nil, []string{"a", "d"}, "InPlace", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newUnoffloading(t, test.ago, test.refuse, test.pods...)
			if test.deleted {
				c.deleteNamespace()
				c.pass()
			}
			if retryAfter, _ := c.pass(); retryAfter != pollInterval && len(test.evicts)+len(test.deletes) > 0 {
				t.Errorf("reconciled again after %s, want %s", retryAfter, pollInterval)
			}
			if diff := cmp.Diff(test.evicts, c.evicted); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.deletes, c.deleted()); diff != "" {
				t.Errorf("deletions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, c.reasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			_, inPlace := c.pass()
			if inPlace.Reason != test.reason || (inPlace.Status == metav1.ConditionTrue) != (test.reason == "InPlace") {
				t.Errorf("condition %+v, want %s", inPlace, test.reason)
			}
		})
	}
}

func TestStatusReportsWhyUnoffloadingWaitsAndItsTimeout(t *testing.T) {
	c := newUnoffloading(t, 0, blockedByBudget, podOf("web", "a", time.Hour, offloaded),
		podOf("web", "b", time.Hour, offloaded))
	const until = "12:03:20Z are deleted"
	if _, inPlace := c.pass(); inPlace.Reason != "Evicting" || !strings.Contains(inPlace.Message, until) {
		t.Errorf("condition at first: %+v", inPlace)
	}
	if events := c.Recorded(); len(events) != 1 ||
		!strings.Contains(events[0], "Evicting pod a from node liqo-milan is blocked") ||
		!strings.Contains(events[0], "The disruption budget web needs 2") {
		t.Errorf("events %q", events)
	}
	if _, inPlace := c.pass(); inPlace.Reason != "EvictionBlocked" || !strings.Contains(inPlace.Message, "2 pod(s)") ||
		!strings.Contains(inPlace.Message, until) {
		t.Errorf("condition of blocked evictions: %+v", inPlace)
	}
	c.Clock.Step(evictionTime)
	c.pass()
	c.pass()
	if events := c.Recorded(); len(events) == 0 ||
		!strings.Contains(events[0], "Deleted pod a from node liqo-milan: it could not be evicted within 3m20s") {
		t.Errorf("events %q", events)
	}
}

func TestEvictionsOfAnUnoffloadedNamespaceAreRetriedOften(t *testing.T) {
	c := newUnoffloading(t, 0, blockedByBudget, podOf("web", "a", time.Hour, offloaded))
	var last, longest time.Duration
	for at := time.Duration(0); at < time.Minute; at += pollInterval {
		tried := len(c.evicted)
		c.pass()
		c.reasons()
		if len(c.evicted) > tried {
			longest, last = max(longest, at-last), at
		}
		c.Clock.Step(pollInterval)
	}
	if longest > maxUnoffloadDelay+pollInterval {
		t.Errorf("not retried for %s", longest)
	}
	if len(c.evicted) > 20 {
		t.Errorf("retried %d times in a minute", len(c.evicted))
	}
	c.refuse = granted
	for range 1 + maxUnoffloadDelay/pollInterval {
		c.Clock.Step(pollInterval)
		c.pass()
	}
	if reasons := c.reasons(); len(reasons) == 0 || reasons[0] != "Unoffloaded" {
		t.Errorf("events %q, want Unoffloaded first", reasons)
	}
}

// The federation API server may be unreachable while the cluster's API server is reachable.
func TestPodsAreRemovedWhileTheStatusCannotBeWritten(t *testing.T) {
	c := newUnoffloading(t, 0, granted, podOf("web", "a", time.Hour, offloaded))
	unreachable := errors.New("the API server is unreachable")
	c.Fault = func(write kittest.Write, _ bool) error {
		if write.Kind == "NamespaceOffloading" {
			return unreachable
		}
		return nil
	}
	// From this time on, the condition is another one, so that the status is written.
	c.Clock.Step(evictionTime)
	if _, err := c.reconciler.Reconcile(t.Context(), offloadingRequest("shop")); !errors.Is(err, unreachable) {
		t.Fatalf("reconcile returns %v, want %v", err, unreachable)
	}
	if diff := cmp.Diff([]string{"a"}, c.deleted()); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

// The scheduler and the admission of pods may observe with a delay that a namespace is unoffloaded.
func TestPodsThatArePlacedOnProvidersWhileTheNamespaceIsUnoffloadedFollow(t *testing.T) {
	late := podOf("web", "late", time.Hour, offloaded)
	t.Run("while its remote namespace is removed", func(t *testing.T) {
		c := newUnoffloading(t, 0, granted)
		if retryAfter, _ := c.pass(); retryAfter != pollInterval {
			t.Errorf("reconciled again after %s, want %s", retryAfter, pollInterval)
		}
		if err := c.Create(t.Context(), late.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		c.pass()
		c.pass()
		if diff := cmp.Diff([]string{"late"}, c.evicted); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
	})
	t.Run("until the label is removed", func(t *testing.T) {
		c := newUnoffloading(t, 0, granted)
		kittest.Change(c.Cluster, "liqo-peer-milan", "rome", &v1alpha1.NamespaceMap{}, func(m *v1alpha1.NamespaceMap) {
			m.Spec.Namespaces, m.Status.Namespaces = nil, nil
		})
		c.pass()
		c.Fault = func(write kittest.Write, done bool) error {
			if write.Kind != "Namespace" || done {
				return nil
			}
			return c.Create(t.Context(), late.DeepCopy())
		}
		if retryAfter, _ := c.pass(); retryAfter != pollInterval {
			t.Errorf("reconciled again after %s, want %s", retryAfter, pollInterval)
		}
		offloading := kittest.Read(c.Cluster, "shop", v1alpha1.NamespaceOffloadingName, &v1alpha1.NamespaceOffloading{})
		if len(offloading.Finalizers) != 1 {
			t.Errorf("finalizers %q, want one", offloading.Finalizers)
		}
	})
}

func TestProviderThatDoesNotAnswerInTimeIsAnEvent(t *testing.T) {
	for _, test := range []struct {
		name    string
		late    bool
		deleted bool
		want    []string
	}{
		{"before the timeout", false, false, nil},
		{"after the timeout", true, false, []string{"RemoteNamespaceLeftBehind"}},
		{"namespace is being deleted", true, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newUnoffloading(t, timeout-time.Second, blockedByBudget)
			if test.deleted {
				c.deleteNamespace()
			}
			c.pass()
			if test.late {
				c.Clock.Step(time.Second)
				c.pass()
			}
			if diff := cmp.Diff(test.want, c.reasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamespaceIsUnoffloadedAfterACrashAtEachWrite offloads and unoffloads a namespace while
// the process ends once, before or after each of its writes.
func TestNamespaceIsUnoffloadedAfterACrashAtEachWrite(t *testing.T) {
	for write := range liveThrough(t, func(*consumer) {}) {
		for _, done := range []bool{false, true} {
			liveThrough(t, func(c *consumer) { c.Kill(write, done) })
		}
	}
}

// liveThrough offloads and unoffloads a namespace, and returns the number of writes.
func liveThrough(t *testing.T, prepare func(*consumer)) int {
	t.Helper()
	c := newConsumer(t, foreignCluster(), virtualNode(), namespace("shop", nil), offloadingOf("shop", 0))
	prepare(c)
	c.settle()
	if m := namespaceMap(); !c.Has(m) || len(m.Spec.Namespaces) != 1 || len(c.status().Clusters) != 1 {
		t.Fatalf("entries %v, status %+v", m.Spec.Namespaces, c.status())
	}
	if err := c.Delete(t.Context(), offloadingOf("shop", 0)); err != nil {
		t.Fatal(err)
	}
	c.settle()
	m, shop := namespaceMap(), kittest.Read(c.Cluster, "", "shop", &corev1.Namespace{})
	if c.Has(offloadingOf("shop", 0)) || c.Has(reflectionOf()) || !c.Has(m) || len(m.Spec.Namespaces) > 0 ||
		len(shop.Labels) > 0 {
		t.Fatalf("entries %v and labels %v are left after %q", m.Spec.Namespaces, shop.Labels, c.Writes)
	}
	return len(c.Writes)
}

// settle reconciles until neither controller writes.
func (c *consumer) settle() {
	c.t.Helper()
	for range 20 {
		before, failed := len(c.Writes), false
		for _, err := range []error{
			errorOf(c.reconciler.Reconcile(c.t.Context(), offloadingRequest("shop"))),
			c.maps.reconcile(c.t.Context(), "milan"),
		} {
			if err != nil && !errors.Is(err, kittest.ErrKilled) {
				c.t.Fatal(err)
			}
			failed = failed || err != nil
		}
		if !failed && len(c.Writes) == before {
			return
		}
	}
	c.t.Fatalf("still writes after %q", c.Writes)
}

func errorOf(_ any, err error) error { return err }
