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
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// leave is one pass over the namespace as the API has it now: when it looks
// again, and the condition PodsInPlace afterwards.
func (p *placed) leave(t *testing.T) (again time.Duration, inPlace metav1.Condition) {
	t.Helper()
	offloadings := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop")
	current, err := offloadings.Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.fedInf.Federation().V1alpha1().NamespaceOffloadings().Informer().GetIndexer().Update(current); err != nil {
		t.Fatal(err)
	}
	return p.reconcile(t)
}

// deleted are the names of the pods that were deleted, in order.
func (p *placed) deleted() []string {
	var names []string
	for _, action := range p.world.kube.Actions() {
		if deletion, ok := action.(clienttesting.DeleteAction); ok && action.Matches("delete", "pods") {
			names = append(names, deletion.GetName())
		}
	}
	return names
}

// newLeaving is a controller with a namespace that has been left for so long, of
// which the status says so.
func newLeaving(t *testing.T, ago time.Duration, refuse func(*corev1.Pod) error, pods ...*corev1.Pod) *placed {
	t.Helper()
	p := newPlaced(t, v1alpha1.Warn, refuse, pods...)
	offloadings := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop")
	current, err := offloadings.Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := offloadings.Update(t.Context(), leavingSince(current, ago), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, told := p.leave(t); len(p.evicted)+len(p.deleted()) > 0 {
		t.Fatalf("pods are called before it is said: %q, %q, %+v", p.evicted, p.deleted(), told)
	}
	return p
}

// nextDoor is a pod on a virtual node, which has to come home.
func nextDoor(name, owner string, age time.Duration) *corev1.Pod {
	pod := running(name, owner, age)
	pod.Spec.NodeName = "liqo-milan"
	return pod
}

func TestPodsComeHomeByEviction(t *testing.T) {
	granted := func(*corev1.Pod) error { return nil }
	a, b, other, alone, young := nextDoor("a", "web", time.Hour), nextDoor("b", "web", time.Hour), nextDoor("c", "db", time.Hour), nextDoor("d", "", time.Hour), nextDoor("e", "new", time.Second)
	here, finished, daemon, ending := running("here", "web", time.Hour), nextDoor("finished", "job", time.Hour), nextDoor("daemon", "daemons", time.Hour), nextDoor("ending", "web", time.Hour)
	finished.Status.Phase = corev1.PodSucceeded
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: noon}, []string{"test/stays"}
	waiting, homebound := nextDoor("waiting", "full", time.Hour), nextDoor("homebound", "full", time.Hour)
	waiting.Spec.NodeName, homebound.Spec.NodeName = "", ""
	waiting.Spec.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
	homebound.Spec.Tolerations = waiting.Spec.Tolerations
	sender, receiver := nextDoor("sender", "", time.Hour), waiting.DeepCopy()
	sender.Labels, receiver.Labels = map[string]string{volume.LabelMove: "m"}, map[string]string{volume.LabelMove: "m"}
	homebound.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.TypeVirtualNode}},
		}}},
	}}}
	for _, test := range []struct {
		name             string
		ago              time.Duration
		goes             bool
		refuse           func(*corev1.Pod) error
		pods             []*corev1.Pod
		evicted, deleted []string
		reason           string
		told             []string
	}{
		{"none are away", 0, false, granted, []*corev1.Pod{here, finished, daemon}, nil, nil, "InPlace", nil},
		{"those of a move are left alone", 0, false, granted, []*corev1.Pod{sender, receiver}, nil, nil, "InPlace", nil},
		{"those that somebody makes again", 0, false, granted, []*corev1.Pod{a, other, here}, []string{"a", "c"}, nil, "Evicting", []string{"Unoffloaded", "Unoffloaded"}},
		{"one that nobody makes again is deleted", 0, false, granted, []*corev1.Pod{a, alone}, []string{"a"}, []string{"d"}, "Evicting", []string{"Unoffloaded"}},
		{"also where budgets hold the others", 0, false, tooMany, []*corev1.Pod{a, alone}, []string{"a"}, []string{"d"}, "EvictionBlocked", []string{"EvictionBlocked"}},
		{"those that wait for a node next door", 0, false, granted, []*corev1.Pod{waiting, homebound}, []string{"waiting"}, nil, "Evicting", []string{"Unoffloaded"}},
		{"those that are ending are waited for", 0, false, granted, []*corev1.Pod{ending}, nil, nil, "Ending", nil},
		{"a budget is asked once for an owner", 0, false, tooMany, []*corev1.Pod{a, b, other}, []string{"a", "c"}, nil, "EvictionBlocked", []string{"EvictionBlocked", "EvictionBlocked"}},
		{"young ones are left for a moment", 0, false, granted, []*corev1.Pod{young}, nil, nil, "Evicting", nil},
		{"refused for another reason", 0, false, func(*corev1.Pod) error { return errors.New("two budgets") }, []*corev1.Pod{a}, []string{"a"}, nil, "EvictionBlocked", []string{"EvictionFailed"}},
		{"just in time", evictionTime - time.Second, false, tooMany, []*corev1.Pod{a}, []string{"a"}, nil, "EvictionBlocked", []string{"EvictionBlocked"}},
		{"when the time is over, what is left is deleted", evictionTime, false, tooMany, []*corev1.Pod{a, b, ending}, nil, []string{"a", "b"}, "Ending", []string{"EvictionTimedOut", "EvictionTimedOut"}},
		{"where the namespace goes, nobody makes any again", 0, true, tooMany, []*corev1.Pod{a, alone}, nil, []string{"a", "d"}, "InPlace", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newLeaving(t, test.ago, test.refuse, test.pods...)
			if test.goes {
				going := labelled("shop")
				going.DeletionTimestamp = &metav1.Time{Time: noon}
				if err := p.kubeInf.Core().V1().Namespaces().Informer().GetIndexer().Update(going); err != nil {
					t.Fatal(err)
				}
				p.leave(t)
			}
			if again, _ := p.leave(t); again != pollInterval && len(test.evicted)+len(test.deleted) > 0 {
				t.Errorf("looks again after %s", again)
			}
			if diff := cmp.Diff(test.evicted, p.evicted); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.deleted, p.deleted()); diff != "" {
				t.Errorf("deletions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.told, p.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			_, inPlace := p.leave(t)
			if inPlace.Reason != test.reason || (inPlace.Status == metav1.ConditionTrue) != (test.reason == "InPlace") {
				t.Errorf("the condition is %+v", inPlace)
			}
		})
	}
}

func TestWhoLeavesIsToldWhatIsWaitedForAndUntilWhen(t *testing.T) {
	p := newLeaving(t, 0, tooMany, nextDoor("a", "web", time.Hour), nextDoor("b", "web", time.Hour))
	const until = "12:03:20Z is deleted"
	if _, told := p.leave(t); told.Reason != "Evicting" || !strings.Contains(told.Message, until) {
		t.Errorf("first the condition is %+v", told)
	}
	if event := <-p.world.events.Events; !strings.Contains(event, "Pod a is not evicted from node liqo-milan for now") || !strings.Contains(event, "The disruption budget web needs 2") {
		t.Errorf("the event is %q", event)
	}
	if _, told := p.leave(t); told.Reason != "EvictionBlocked" || !strings.Contains(told.Message, "2 pod(s)") || !strings.Contains(told.Message, until) {
		t.Errorf("held back, the condition is %+v", told)
	}
	p.clock.Step(evictionTime)
	p.leave(t)
	p.leave(t)
	if event := <-p.world.events.Events; !strings.Contains(event, "Deleted pod a from node liqo-milan: it could not be evicted within 3m20s") {
		t.Errorf("the event is %q", event)
	}
}

func TestABudgetThatHoldsPodsAwayIsAskedOften(t *testing.T) {
	blocked := true
	p := newLeaving(t, 0, func(pod *corev1.Pod) error {
		if blocked {
			return tooMany(pod)
		}
		return nil
	}, nextDoor("a", "web", time.Hour))
	var last, longest time.Duration
	for at := time.Duration(0); at < time.Minute; at += pollInterval {
		tried := len(p.evicted)
		p.leave(t)
		p.told()
		if len(p.evicted) > tried {
			longest, last = max(longest, at-last), at
		}
		p.clock.Step(pollInterval)
	}
	if longest > maxHomecomingDelay+pollInterval {
		t.Errorf("it is not asked for %s", longest)
	}
	if len(p.evicted) > 20 {
		t.Errorf("it is asked %d times in a minute", len(p.evicted))
	}
	blocked = false
	for range 1 + maxHomecomingDelay/pollInterval {
		p.clock.Step(pollInterval)
		p.leave(t)
	}
	if told := p.told(); !cmp.Equal(told[:1], []string{"Unoffloaded"}) {
		t.Errorf("when it gives in, the events are %q", told)
	}
}

// The API server of the federation may be away while that of the cluster is not.
func TestPodsComeHomeWhileNobodyCanBeTold(t *testing.T) {
	p := newLeaving(t, 0, func(*corev1.Pod) error { return nil }, nextDoor("a", "web", time.Hour))
	down := errors.New("the API server is away")
	p.world.federation.PrependReactor("patch", "namespaceoffloadings", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	p.clock.Step(evictionTime) // There is something else to tell now.
	if _, err := p.reconcileOffloading(t.Context(), "shop"); !errors.Is(err, down) {
		t.Fatalf("the pass: %v", err)
	}
	if diff := cmp.Diff([]string{"a"}, p.deleted()); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

// The scheduler, and what admits pods, may hear later than others that a
// namespace comes home.
func TestPodsThatAreSentAwayWhileTheNamespaceComesHomeFollow(t *testing.T) {
	granted := func(*corev1.Pod) error { return nil }
	send := func(p *placed) {
		t.Helper()
		if err := p.world.kube.Tracker().Add(nextDoor("late", "web", time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("while its twin goes", func(t *testing.T) {
		p := newLeaving(t, 0, granted)
		if again, _ := p.leave(t); again != pollInterval {
			t.Errorf("it looks again after %s", again)
		}
		send(p)
		p.leave(t)
		p.leave(t)
		if diff := cmp.Diff([]string{"late"}, p.evicted); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
	})
	t.Run("until the label is gone", func(t *testing.T) {
		p := newLeaving(t, 0, granted)
		if err := p.fedInf.Federation().V1alpha1().NamespaceMaps().Informer().GetIndexer().Update(mapWith()); err != nil {
			t.Fatal(err)
		}
		p.leave(t)
		p.world.kube.PrependReactor("patch", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			send(p)
			return false, nil, nil
		})
		if again, _ := p.leave(t); again != pollInterval {
			t.Errorf("it looks again after %s", again)
		}
		current, err := p.world.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil || len(current.Finalizers) != 1 {
			t.Errorf("it was let go: %+v, %v", current, err)
		}
	})
}

func TestAClusterThatDoesNotAnswerInTimeIsTold(t *testing.T) {
	for _, test := range []struct {
		name string
		late bool
		goes bool
		told []string
	}{
		{"not before its time", false, false, nil},
		{"then by name", true, false, []string{"TwinLeftBehind"}},
		{"not where the namespace goes, which has no events any more", true, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newLeaving(t, timeout-time.Second, tooMany)
			if test.goes {
				going := labelled("shop")
				going.DeletionTimestamp = &metav1.Time{Time: noon}
				if err := p.kubeInf.Core().V1().Namespaces().Informer().GetIndexer().Update(going); err != nil {
					t.Fatal(err)
				}
			}
			p.leave(t)
			if test.late {
				p.clock.Step(time.Second)
				p.leave(t)
			}
			if diff := cmp.Diff(test.told, p.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
