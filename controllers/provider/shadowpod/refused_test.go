// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/provider/offer"
)

const fieldOfTolerations = "spec.incomingPolicy.pods.tolerations of ForeignCluster rome"

// tolerating makes a ShadowPod of consumer rome tolerate a taint.
func tolerating(shadow *v1alpha1.ShadowPod) {
	shadow.Status.ForeignCluster = "rome"
	shadow.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
}

// ofAnAdministrator makes a ShadowPod one that an administrator of the provider wrote.
func ofAnAdministrator(shadow *v1alpha1.ShadowPod) { shadow.Status.ForeignCluster = "" }

// identified sets a label on a ShadowPod of consumer rome that is refused.
func identified(shadow *v1alpha1.ShadowPod) {
	shadow.Status.ForeignCluster = "rome"
	shadow.Labels["azure.workload.identity/use"] = "true"
}

func TestRefusedPodIsReportedOnceAndEvictedIfThePolicyRequestsIt(t *testing.T) {
	strict := &v1alpha1.PodPolicy{}
	report, evict := "patch status ShadowPod web", "create eviction Pod web"
	for _, test := range []struct {
		name   string
		limits Limits
		shadow *v1alpha1.ShadowPod
		// wrote are the writes of the first pass, and then of the second.
		wrote, then []string
		// event is a part of the event; empty if there is none.
		event string
	}{
		{name: "a permitted pod", limits: Limits{Policy: strict, Evict: true}, shadow: shadowPod()},
		{name: "a consumer without limits", limits: Limits{Evict: true}, shadow: shadowPod(tolerating)},
		{
			name: "a pod of an administrator", limits: Limits{Policy: strict, Evict: true},
			shadow: shadowPod(tolerating, ofAnAdministrator),
		},
		{
			name: "a toleration, kept", limits: Limits{Policy: strict}, shadow: shadowPod(tolerating),
			wrote: []string{report}, event: "which keeps running",
		},
		{
			name: "a toleration, evicted", limits: Limits{Policy: strict, Evict: true}, shadow: shadowPod(tolerating),
			wrote: []string{report}, then: []string{evict}, event: "evicts it",
		},
		{
			name: "a job, evicted", limits: Limits{Policy: strict, Evict: true}, shadow: shadowPod(never, tolerating),
			wrote: []string{report}, then: []string{evict}, event: "evicts it",
		},
		{
			name: "a label, which the remote pod loses", limits: Limits{Policy: strict}, shadow: shadowPod(identified),
			wrote: []string{report}, then: []string{"update Pod web"}, event: "metadata.labels[azure.workload.identity/use]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.shadow, podOf(t, test.shadow))
			w.placer.limits = test.limits
			w.pass(t)
			if diff := cmp.Diff(test.wrote, w.WritesSince(0)); diff != "" {
				t.Errorf("writes of the first pass (-want +got):\n%s", diff)
			}
			w.pass(t)
			if diff := cmp.Diff(test.then, w.WritesSince(len(test.wrote))); diff != "" {
				t.Errorf("writes of the second pass (-want +got):\n%s", diff)
			}
			events := w.Recorded()
			if test.event == "" {
				if len(events) > 0 {
					t.Errorf("events %q", events)
				}
				return
			}
			if len(events) != 1 || !strings.HasPrefix(events[0], "Warning RefusedByPolicy ") ||
				!strings.Contains(events[0], test.event) || !strings.Contains(events[0], "of ForeignCluster rome") {
				t.Errorf("events %q, want one with %q and the field to change", events, test.event)
			}
		})
	}
}

func TestPermittedPodIsReportedAfterARefusal(t *testing.T) {
	w := newWorld(t, shadowPod(tolerating), podOf(t, shadowPod(tolerating)))
	for _, step := range []struct {
		name   string
		limits Limits
		want   metav1.ConditionStatus
		events int
	}{
		{"refused", Limits{Policy: &v1alpha1.PodPolicy{}}, metav1.ConditionFalse, 1},
		{"permitted", Limits{Policy: &v1alpha1.PodPolicy{Tolerations: []string{"gpu"}}}, metav1.ConditionTrue, 0},
		{"refused again", Limits{Policy: &v1alpha1.PodPolicy{}}, metav1.ConditionFalse, 1},
		{"to be evicted", Limits{Policy: &v1alpha1.PodPolicy{}, Evict: true}, metav1.ConditionFalse, 1},
		{"no limits", Limits{}, metav1.ConditionTrue, 0},
	} {
		w.placer.limits = step.limits
		w.pass(t)
		condition := meta.FindStatusCondition(w.shadow().Status.Conditions, v1alpha1.ConditionPodPermitted)
		if condition == nil || condition.Status != step.want {
			t.Errorf("%s: condition %+v, want %s", step.name, condition, step.want)
		}
		if events := w.Recorded(); len(events) != step.events {
			t.Errorf("%s: events %q, want %d", step.name, events, step.events)
		}
	}
}

func TestEvictedPodThatIsRefusedEndsAndIsNotCreatedAgain(t *testing.T) {
	w := newWorld(t, shadowPod(tolerating), podOf(t, shadowPod(tolerating)))
	w.placer.limits = Limits{Policy: &v1alpha1.PodPolicy{}, Evict: true}
	for range 4 {
		w.pass(t)
	}
	want := []string{"patch status ShadowPod web", "create eviction Pod web", "patch status ShadowPod web"}
	if diff := cmp.Diff(want, w.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	status := w.shadow().Status
	if status.Phase != corev1.PodFailed || status.Pod == nil || status.Pod.Reason != reasonRefusedByPolicy ||
		!strings.Contains(status.Pod.Message, fieldOfTolerations) {
		t.Errorf("status %+v does not state the refusal", status)
	}
}

func TestRefusedPodThatIsKeptIsCreatedAgain(t *testing.T) {
	w := newWorld(t, shadowPod(tolerating), nil)
	w.placer.limits = Limits{Policy: &v1alpha1.PodPolicy{}}
	w.pass(t)
	if diff := cmp.Diff([]string{"create Pod web"}, w.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestEvictionThatABudgetDoesNotAllowIsRetriedWithGrowingDelays(t *testing.T) {
	w := newWorld(t, shadowPod(tolerating), podOf(t, shadowPod(tolerating)))
	w.placer.limits = Limits{Policy: &v1alpha1.PodPolicy{}, Evict: true}
	w.Fault = func(write kittest.Write, _ bool) error {
		if write.Verb == "create eviction" {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
		return nil
	}
	w.pass(t)
	w.Recorded()
	var waited []time.Duration
	for range 7 {
		written := len(w.Writes)
		after := w.pass(t)
		waited = append(waited, after)
		if events := w.Recorded(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning EvictionBlocked ") {
			t.Errorf("events %q", events)
		}
		w.pass(t)
		if diff := cmp.Diff([]string{"create eviction Pod web"}, w.WritesSince(written)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		w.Clock.Step(after)
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, maxEvictionDelay, maxEvictionDelay,
	}
	if diff := cmp.Diff(want, waited); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestLimitsOfAConsumerConcernItsUnfinishedPods(t *testing.T) {
	named := func(name, consumer string, change ...func(*v1alpha1.ShadowPod)) *v1alpha1.ShadowPod {
		shadow := shadowPod(change...)
		shadow.Name, shadow.UID, shadow.Status.ForeignCluster = name, "", consumer
		return shadow
	}
	w := newWorld(t, named("a", "rome"), nil)
	for _, shadow := range []*v1alpha1.ShadowPod{named("b", "rome"), named("c", "paris"), named("d", "rome", hasEnded)} {
		status := shadow.Status
		if err := w.Create(t.Context(), shadow); err != nil {
			t.Fatal(err)
		}
		shadow.Status = status
		if err := w.Status().Update(t.Context(), shadow); err != nil {
			t.Fatal(err)
		}
	}
	rome := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	got := w.r.requestsOfConsumer(t.Context(), rome)
	slices.SortFunc(got, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) })
	want := []reconcile.Request{kit.Request(remoteName, "a"), kit.Request(remoteName, "b")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestChangesOfLimitsAreSelected(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.ForeignClusterSpec)
		want   bool
	}{
		{"nothing", func(*v1alpha1.ForeignClusterSpec) {}, false},
		{"the share", func(s *v1alpha1.ForeignClusterSpec) { s.IncomingPolicy.SharePercent = ptr.To[int32](5) }, false},
		{"the trust", func(s *v1alpha1.ForeignClusterSpec) { s.Trust = v1alpha1.TrustTenant }, true},
		{"the limits", func(s *v1alpha1.ForeignClusterSpec) { s.IncomingPolicy.Pods.Tolerations = []string{"gpu"} }, true},
		{
			"what happens to refused pods",
			func(s *v1alpha1.ForeignClusterSpec) { s.IncomingPolicy.RefusedPods = v1alpha1.RefusedPodsEvict }, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			old, current := &v1alpha1.ForeignCluster{}, &v1alpha1.ForeignCluster{}
			test.change(&current.Spec)
			if got := limitsChanged(old, current); got != test.want {
				t.Errorf("selected: %t", got)
			}
		})
	}
}

func TestLimitsComeFromTheForeignCluster(t *testing.T) {
	cluster := func(name string, policy v1alpha1.RefusedPodsPolicy) *v1alpha1.ForeignCluster {
		return &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ForeignClusterSpec{
			Trust: v1alpha1.TrustTenant, IncomingPolicy: v1alpha1.IncomingPolicy{RefusedPods: policy},
		}}
	}
	nodes := &Nodes{
		cluster: kittest.New(t, cluster("keep", v1alpha1.RefusedPodsKeep), cluster("evict", v1alpha1.RefusedPodsEvict),
			cluster("default", "")),
		policy: &offer.Policy{},
	}
	tenant, gone := &v1alpha1.PodPolicy{MaxGracePeriodSeconds: ptr.To[int64](3600)}, trust.Strictest()
	gone.Limits = ""
	for name, want := range map[string]Limits{
		"keep": {Policy: tenant}, "evict": {Policy: tenant, Evict: true}, "default": {Policy: tenant}, "gone": {Policy: gone},
	} {
		got, err := nodes.Limits(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, diff)
		}
	}
}

func TestPodWithoutARuntimeClassGetsTheDefaultOfThePolicy(t *testing.T) {
	kata := func(shadow *v1alpha1.ShadowPod) { shadow.Spec.Pod.RuntimeClassName = ptr.To("kata") }
	several := &v1alpha1.PodPolicy{RuntimeClasses: []string{"gvisor", "kata"}}
	for _, test := range []struct {
		name   string
		policy *v1alpha1.PodPolicy
		shadow *v1alpha1.ShadowPod
		want   *string
	}{
		{"no RuntimeClass", several, shadowPod(), ptr.To("gvisor")},
		{"a RuntimeClass", several, shadowPod(kata), ptr.To("kata")},
		{"no RuntimeClass, all permitted", &v1alpha1.PodPolicy{RuntimeClasses: []string{"*"}}, shadowPod(), nil},
		{"no RuntimeClass, none permitted", &v1alpha1.PodPolicy{}, shadowPod(), nil},
		{"no RuntimeClass, no policy", nil, shadowPod(), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.shadow, nil)
			w.placer.limits = Limits{Policy: test.policy}
			w.pass(t)
			if diff := cmp.Diff(test.want, w.pod().Spec.RuntimeClassName); diff != "" {
				t.Errorf("RuntimeClass of the remote pod (-want +got):\n%s", diff)
			}
		})
	}
}
