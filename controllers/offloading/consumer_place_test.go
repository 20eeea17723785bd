// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/queue"
)

// placed is a controller with a namespace whose pods may run on the virtual
// node alone, and what it asked to be evicted.
type placed struct {
	world
	*Consumer
	clock   *clocktesting.FakeClock
	evicted []string
}

func newPlaced(t *testing.T, enforcement v1alpha1.PlacementEnforcement, refuse func(pod *corev1.Pod) error, pods ...*corev1.Pod) *placed {
	t.Helper()
	offloading := offloadingOf("shop", time.Hour)
	offloading.Spec.PodOffloadingStrategy, offloading.Spec.Enforcement = v1alpha1.Remote, enforcement
	w := newWorld(t, foreignCluster(), milanNode(), mapWith("shop"), labelled("shop"), offloading)
	for _, pod := range pods {
		if err := w.kube.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	p := &placed{world: w, Consumer: w.consumer(t), clock: clocktesting.NewFakeClock(noon)}
	p.Consumer.clock = p.clock
	p.evictions = flowcontrol.NewFakeBackOff(minEvictionDelay, maxEvictionDelay, p.clock)
	p.homecomings = flowcontrol.NewFakeBackOff(minEvictionDelay, maxHomecomingDelay, p.clock)
	p.evictPod = func(_ context.Context, pod *corev1.Pod) error {
		p.evicted = append(p.evicted, pod.Name)
		return refuse(pod)
	}
	return p
}

func (p *placed) reconcile(t *testing.T) (again time.Duration, inPlace metav1.Condition) {
	t.Helper()
	again, err := p.reconcileOffloading(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	current, err := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionPodsInPlace)
	if condition == nil {
		t.Fatal("there is no condition")
	}
	return again, *condition
}

// told are the events, by reason.
func (p *placed) told() []string {
	var reasons []string
	for {
		select {
		case event := <-p.world.events.Events:
			reasons = append(reasons, strings.Fields(event)[1])
		default:
			return reasons
		}
	}
}

func running(name, owner string, age time.Duration) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       corev1.PodSpec{NodeName: "worker"},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	return pod
}

func tooMany(*corev1.Pod) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "DisruptionBudget", Message: "The disruption budget web needs 2 healthy pods and has 2 currently"}}
	return err
}

func TestMisplacedPodsAreToldOrEvicted(t *testing.T) {
	granted := func(*corev1.Pod) error { return nil }
	daemon := running("daemon", "daemons", time.Hour)
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	there := running("there", "web", time.Hour)
	there.Spec.NodeName = "liqo-milan"
	a, b, alone, young := running("a", "web", time.Hour), running("b", "web", time.Hour), running("c", "", time.Hour), running("d", "new", time.Second)
	waiting := running("waiting", "full", time.Hour)
	waiting.Spec.NodeName = ""
	for _, test := range []struct {
		name        string
		enforcement v1alpha1.PlacementEnforcement
		refuse      func(*corev1.Pod) error
		pods        []*corev1.Pod
		evicted     []string
		again       time.Duration
		reason      string
		says        string
		told        []string
	}{
		{"where they may be", v1alpha1.Evict, granted, []*corev1.Pod{there, daemon}, nil, strandedEvery, "InPlace", "", nil},
		{"warned of", v1alpha1.Warn, granted, []*corev1.Pod{a, b, there}, nil, strandedEvery, "Misplaced", "2 pod(s) run where spec no longer lets them:", nil},
		{"evicted", v1alpha1.Evict, granted, []*corev1.Pod{a, b, alone, there, daemon}, []string{"a", "b", "c"}, strandedEvery, "Evicting", "3 pod(s)", []string{"Misplaced", "Misplaced", "Misplaced"}},
		{"waiting for a node by what was said before", v1alpha1.Evict, granted, []*corev1.Pod{waiting, there}, []string{"waiting"}, strandedEvery, "InPlace", "", []string{"Misplaced"}},
		{"which their owner is warned of", v1alpha1.Warn, granted, []*corev1.Pod{waiting, there}, nil, strandedEvery, "Misplaced", "0 pod(s) run where spec no longer lets them, and 1 wait", nil},
		{"beside those that run", v1alpha1.Warn, granted, []*corev1.Pod{waiting, a, b}, nil, strandedEvery, "Misplaced", "2 pod(s) run where spec no longer lets them, and 1 wait", nil},
		{"young ones are left for a moment", v1alpha1.Evict, granted, []*corev1.Pod{a, young}, []string{"a"}, minEvictionAge - time.Second, "Evicting", "2 pod(s)", []string{"Misplaced"}},
		{"held by a budget, which is asked once for its owner", v1alpha1.Evict, tooMany, []*corev1.Pod{a, b, alone}, []string{"a", "c"}, minEvictionDelay, "Evicting", "3 pod(s)", []string{"EvictionBlocked", "EvictionBlocked"}},
		{"refused for another reason", v1alpha1.Evict, func(*corev1.Pod) error { return errors.New("two budgets") }, []*corev1.Pod{alone}, []string{"c"}, minEvictionDelay, "Evicting", "1 pod(s)", []string{"EvictionFailed"}},
		{"gone meanwhile", v1alpha1.Evict, func(pod *corev1.Pod) error { return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name) }, []*corev1.Pod{alone}, []string{"c"}, strandedEvery, "Evicting", "1 pod(s)", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlaced(t, test.enforcement, test.refuse, test.pods...)
			again, inPlace := p.reconcile(t)
			if diff := cmp.Diff(test.evicted, p.evicted); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if again != test.again {
				t.Errorf("looks again after %s, want %s", again, test.again)
			}
			if inPlace.Reason != test.reason || !strings.Contains(inPlace.Message, test.says) || (inPlace.Status == metav1.ConditionTrue) != (test.reason == "InPlace") {
				t.Errorf("the condition is %+v", inPlace)
			}
			if diff := cmp.Diff(test.told, p.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsThatWaitAreLookedForUntilNobodyMakesThemAsBefore(t *testing.T) {
	p := newPlaced(t, v1alpha1.Evict, func(*corev1.Pod) error { return nil })
	lists := func() int {
		count := 0
		for _, action := range p.world.kube.Actions() {
			if action.Matches("list", "pods") {
				count++
			}
		}
		return count
	}
	look := func(want int, again time.Duration) {
		t.Helper()
		before := lists()
		if after, _ := p.reconcile(t); after != again || lists()-before != want {
			t.Errorf("it looks %d times, and again after %s", lists()-before, after)
		}
	}
	look(1, strandedEvery)
	// Much changes at once, and no list follows each of it.
	look(0, strandedPause)
	p.clock.Step(strandedPause)
	look(1, strandedEvery)
	p.clock.Step(strandedTime - strandedPause)
	look(1, strandedEvery)
	p.clock.Step(time.Second)
	look(0, 0)
	// Another spec is another beginning.
	changed := offloadingOf("shop", time.Hour)
	changed.Spec.PodOffloadingStrategy, changed.Spec.Enforcement, changed.Generation = v1alpha1.Local, v1alpha1.Evict, changed.Generation+1
	if err := p.fedInf.Federation().V1alpha1().NamespaceOffloadings().Informer().GetIndexer().Update(changed); err != nil {
		t.Fatal(err)
	}
	look(1, strandedEvery)
}

func TestPodsThatWaitAreWarnedOfUntilTheyAreGone(t *testing.T) {
	waiting := running("waiting", "full", time.Hour)
	waiting.Spec.NodeName = ""
	p := newPlaced(t, v1alpha1.Warn, nil, waiting)
	look := func(want time.Duration, reason string) {
		t.Helper()
		if again, inPlace := p.reconcile(t); again != want || inPlace.Reason != reason {
			t.Errorf("it looks again after %s, and says %s", again, inPlace.Reason)
		}
	}
	look(strandedEvery, "Misplaced")
	p.clock.Step(strandedTime + time.Second)
	look(strandedTime, "Misplaced")
	if err := p.world.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "waiting"); err != nil {
		t.Fatal(err)
	}
	p.clock.Step(strandedTime)
	look(strandedTime, "InPlace")
	look(0, "InPlace")
}

func TestATwinThatDaemonSetsAloneAreInIsLookedAtAgain(t *testing.T) {
	daemon := running("daemon", "daemons", time.Hour)
	daemon.OwnerReferences[0].Kind, daemon.Spec.NodeName = "DaemonSet", "liqo-milan"
	for enforcement, again := range map[v1alpha1.PlacementEnforcement]bool{v1alpha1.Evict: true, v1alpha1.Warn: false} {
		p := newPlaced(t, enforcement, func(*corev1.Pod) error { return nil }, daemon)
		changed := offloadingOf("shop", time.Hour)
		changed.Spec.Enforcement = enforcement
		changed.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}},
		}}}
		if err := p.fedInf.Federation().V1alpha1().NamespaceOffloadings().Informer().GetIndexer().Update(changed); err != nil {
			t.Fatal(err)
		}
		looked := make(chan string, 10)
		p.mapQueue = queue.New("namespace-map", 1, func(_ context.Context, cluster string) (time.Duration, error) {
			looked <- cluster
			return 0, nil
		})
		p.reconcile(t)
		p.mapQueue.Add("the last one")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.mapQueue.Run(ctx) }()
		if got := <-looked == "milan"; got != again {
			t.Errorf("with %s the map is looked at again: %t", enforcement, got)
		}
		cancel()
		<-ended
	}
}

func TestABudgetIsAskedLessAndLessOften(t *testing.T) {
	blocked := true
	p := newPlaced(t, v1alpha1.Evict, func(pod *corev1.Pod) error {
		if blocked {
			return tooMany(pod)
		}
		return nil
	}, running("a", "web", time.Hour), running("b", "web", time.Hour))
	// The spec is no new one.
	offloading := offloadingOf("shop", time.Hour)
	p.specs.Store("shop", seenSpec{uid: offloading.UID, generation: offloading.Generation, seen: noon.Add(-time.Hour)})
	want, tries := minEvictionDelay, 0
	for range 8 {
		again, inPlace := p.reconcile(t)
		if tries++; len(p.evicted) != tries || again != want {
			t.Fatalf("after %d evictions it looks again after %s, want %s", len(p.evicted), again, want)
		}
		if tries > 1 && inPlace.Reason != "EvictionBlocked" {
			t.Errorf("the condition is %+v", inPlace)
		}
		// An event in between changes nothing.
		p.reconcile(t)
		if len(p.evicted) != tries {
			t.Fatal("a budget is asked again before its time")
		}
		p.clock.Step(again)
		want = min(2*want, maxEvictionDelay)
	}
	blocked, p.evicted = false, nil
	p.reconcile(t)
	if diff := cmp.Diff([]string{"a", "b"}, p.evicted); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
}

func TestABlockedEvictionNamesTheBudget(t *testing.T) {
	p := newPlaced(t, v1alpha1.Evict, tooMany, running("a", "web", time.Hour))
	p.reconcile(t)
	if event := <-p.world.events.Events; !strings.Contains(event, "The disruption budget web needs 2") || !strings.Contains(event, "Pod a is not evicted from node worker") {
		t.Errorf("the event is %q", event)
	}
}

func TestManyPodsAreEvictedAFewAtATime(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxEvictions + 1 {
		pods = append(pods, running(fmt.Sprintf("p%03d", i), "", time.Hour))
	}
	p := newPlaced(t, v1alpha1.Evict, func(*corev1.Pod) error { return nil }, pods...)
	p.Consumer.events = &record.FakeRecorder{}
	if again, _ := p.reconcile(t); len(p.evicted) != maxEvictions || again != pollInterval {
		t.Errorf("%d evictions, again after %s", len(p.evicted), again)
	}
}

func TestASettledPlacementIsNotWrittenAgain(t *testing.T) {
	p := newPlaced(t, v1alpha1.Warn, nil, running("a", "web", time.Hour))
	_, first := p.reconcile(t)
	current, err := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.fedInf.Federation().V1alpha1().NamespaceOffloadings().Informer().GetIndexer().Update(current); err != nil {
		t.Fatal(err)
	}
	p.clock.Step(time.Hour)
	before := len(p.world.federation.Actions())
	if _, again := p.reconcile(t); again != first {
		t.Errorf("the condition changed by time alone: %+v, %+v", first, again)
	}
	for _, action := range p.world.federation.Actions()[before:] {
		if action.GetVerb() == "patch" {
			t.Errorf("nothing changed, and %s %s is written", action.GetResource().Resource, action.GetSubresource())
		}
	}
}

func TestPodsThatMayRunAnywhereAreNotWatched(t *testing.T) {
	offloading := offloadingOf("shop", time.Hour)
	w := newWorld(t, foreignCluster(), milanNode(), mapWith("shop"), labelled("shop"), offloading, podAt("liqo-milan", corev1.PodRunning))
	p := &placed{world: w, Consumer: w.consumer(t)}
	forgotten := ""
	p.forgetPods = func(namespace string) { forgotten = namespace }
	p.watchPods = func(context.Context, string) ([]*corev1.Pod, bool, error) {
		t.Error("they are watched")
		return nil, false, nil
	}
	if again, inPlace := p.reconcile(t); again != strandedEvery || inPlace.Reason != "InPlace" || forgotten != "shop" {
		t.Errorf("it looks again after %s, %q is forgotten, and the condition is %+v", again, forgotten, inPlace)
	}
}

func TestTheOwnerIsToldOnceThatAProviderDoesNotTakeTheNamespace(t *testing.T) {
	p := newPlaced(t, v1alpha1.Warn, func(*corev1.Pod) error { return nil })
	refused := mapWith("shop")
	refused.Status.Namespaces[0].Phase, refused.Status.Namespaces[0].Message = v1alpha1.NamespaceMappingConflict, "there is one of that name"
	if err := p.fedInf.Federation().V1alpha1().NamespaceMaps().Informer().GetIndexer().Update(refused); err != nil {
		t.Fatal(err)
	}
	for pass, want := range [][]string{{"NamespaceConflict"}, nil} {
		p.reconcile(t)
		if diff := cmp.Diff(want, p.told()); diff != "" {
			t.Errorf("events of pass %d (-want +got):\n%s", pass, diff)
		}
		written, err := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.fedInf.Federation().V1alpha1().NamespaceOffloadings().Informer().GetIndexer().Update(written); err != nil {
			t.Fatal(err)
		}
	}
}
