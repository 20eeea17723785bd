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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

func TestMapHoldsWhatIsSelectedAndWhatIsNotHomeYet(t *testing.T) {
	france := offloadingOf("shop", time.Hour)
	france.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"fr"}},
	}}}
	disabled := foreignCluster()
	disabled.Spec.Outgoing = v1alpha1.PeeringDisabled
	going := milanNode()
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	frenchNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan", Labels: map[string]string{"region": "fr"}}}

	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    []string
		wrote   []string
	}{
		{
			name:    "a selected namespace gets an entry, and the first one a map",
			objects: []runtime.Object{foreignCluster(), milanNode(), offloadingOf("shop", 0)},
			want:    []string{"shop"}, wrote: []string{"create namespacemaps"},
		},
		{
			name:    "nothing is written when nothing changed",
			objects: []runtime.Object{foreignCluster(), milanNode(), offloadingOf("shop", 0), mapWith("shop")},
			want:    []string{"shop"},
		},
		{
			name:    "no map is made for nothing",
			objects: []runtime.Object{foreignCluster(), milanNode(), france},
		},
		{
			name:    "what is no longer selected goes",
			objects: []runtime.Object{foreignCluster(), milanNode(), france, mapWith("shop")},
			wrote:   []string{"patch namespacemaps"},
		},
		{
			name:    "what is no longer selected stays as long as pods are there",
			objects: []runtime.Object{foreignCluster(), milanNode(), france, mapWith("shop"), podAt("liqo-milan", corev1.PodRunning)},
			want:    []string{"shop"},
		},
		{
			name:    "pods that are elsewhere or have finished do not hold it",
			objects: []runtime.Object{foreignCluster(), milanNode(), france, mapWith("shop"), podAt("here", corev1.PodRunning), podAt("liqo-milan", corev1.PodSucceeded)},
			wrote:   []string{"patch namespacemaps"},
		},
		{
			name:    "pods alone make no entry",
			objects: []runtime.Object{foreignCluster(), milanNode(), france, podAt("liqo-milan", corev1.PodRunning)},
		},
		{
			name:    "the node's labels count",
			objects: []runtime.Object{foreignCluster(), milanNode(), france, frenchNode},
			want:    []string{"shop"}, wrote: []string{"create namespacemaps"},
		},
		{
			name:    "what leaves keeps its entry until its pods are home",
			objects: []runtime.Object{foreignCluster(), milanNode(), leavingSince(offloadingOf("shop", 0), 0), mapWith("shop")},
			want:    []string{"shop"},
		},
		{
			name:    "what leaves gets no entry",
			objects: []runtime.Object{foreignCluster(), milanNode(), leavingSince(offloadingOf("shop", 0), 0)},
		},
		{
			name:    "a peering that ends keeps what it has and takes no more",
			objects: []runtime.Object{disabled, milanNode(), offloadingOf("shop", 0), offloadingOf("bank", 0), mapWith("shop")},
			want:    []string{"shop"},
		},
		{
			name:    "so does a virtual node that goes",
			objects: []runtime.Object{foreignCluster(), going, offloadingOf("shop", 0), offloadingOf("bank", 0), mapWith("shop")},
			want:    []string{"shop"},
		},
		{
			name:    "without virtual nodes nothing is left",
			objects: []runtime.Object{foreignCluster(), offloadingOf("shop", 0), mapWith("shop")},
			wrote:   []string{"patch namespacemaps"},
		},
		{
			name:    "an entry that nobody asked for goes",
			objects: []runtime.Object{foreignCluster(), milanNode(), offloadingOf("shop", 0), mapWith("other", "shop")},
			want:    []string{"shop"}, wrote: []string{"patch namespacemaps"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			if _, err := w.consumer(t).reconcileMap(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			m, err := w.federation.FederationV1alpha1().NamespaceMaps(naming.PeerNamespace("milan")).Get(t.Context(), "rome", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				m = &v1alpha1.NamespaceMap{}
			} else if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, entry := range m.Spec.Namespaces {
				got = append(got, entry.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATwinStaysUntilItsPodsAreKnownToBeGone(t *testing.T) {
	elsewhere := offloadingOf("shop", time.Hour)
	elsewhere.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"fr"}},
	}}}
	w := newWorld(t, foreignCluster(), milanNode(), elsewhere, mapWith("shop"), labelled("shop"))
	c := w.consumer(t)
	c.seenPods = func(string) ([]*corev1.Pod, bool) { return nil, false }
	if _, err := c.reconcileMap(t.Context(), "milan"); err != nil {
		t.Fatal(err)
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("a twin whose pods are not known is given up: %q", writes)
	}
}

func TestOfDaemonSetsNoTwinStaysWherePodsAreEvicted(t *testing.T) {
	for enforcement, stays := range map[v1alpha1.PlacementEnforcement]bool{v1alpha1.Warn: true, v1alpha1.Evict: false} {
		elsewhere := offloadingOf("shop", time.Hour)
		elsewhere.Spec.Enforcement = enforcement
		elsewhere.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"fr"}},
		}}}
		w := newWorld(t, foreignCluster(), milanNode(), elsewhere, mapWith("shop"), labelled("shop"))
		c := w.consumer(t)
		daemon := running("daemon", "daemons", time.Hour)
		daemon.OwnerReferences[0].Kind, daemon.Spec.NodeName = "DaemonSet", "liqo-milan"
		c.seenPods = func(string) ([]*corev1.Pod, bool) { return []*corev1.Pod{daemon}, true }
		if _, err := c.reconcileMap(t.Context(), "milan"); err != nil {
			t.Fatal(err)
		}
		if writes := w.writes(); len(writes) > 0 == stays {
			t.Errorf("%s: wrote %q", enforcement, writes)
		}
	}
}

func TestATwinBelongsToTheNamespaceThatHasIt(t *testing.T) {
	unique := offloadingOf("shop", 0)
	unique.Spec.NamespaceMappingStrategy = v1alpha1.DefaultName
	twin := naming.UniqueTwinNamespace("shop", "rome", romeID)
	older := offloadingOf(twin, time.Hour)
	holder := &v1alpha1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.PeerNamespace("milan")},
		Spec:       v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: twin}}},
	}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"the oldest gets it", []runtime.Object{unique, older}, twin},
		{"who has it keeps it", []runtime.Object{unique, older, holder}, "shop"},
		{"also while it leaves", []runtime.Object{leavingSince(unique.DeepCopy(), 0), older, holder}, "shop"},
		{"and then it is free", []runtime.Object{older, holder}, twin},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, foreignCluster(), milanNode(), labelled("shop"), labelled(twin))...)
			if _, err := w.consumer(t).reconcileMap(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
			m, err := w.federation.FederationV1alpha1().NamespaceMaps(naming.PeerNamespace("milan")).Get(t.Context(), "rome", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]v1alpha1.NamespaceMapping{{Name: test.want, RemoteName: twin}}, m.Spec.Namespaces); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}

	w := newWorld(t, unique, older, holder, foreignCluster(), milanNode(), labelled("shop"), labelled(twin))
	if _, err := w.consumer(t).reconcileOffloading(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	told, err := w.federation.FederationV1alpha1().NamespaceOffloadings(twin).Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(told.Status.Clusters[0].Conditions, v1alpha1.ConditionReady)
	if told.Status.Phase != v1alpha1.OffloadingAllFailed || ready == nil || ready.Reason != "NameTaken" {
		t.Errorf("the owner is told %+v", told.Status)
	}
}

func TestOldestNamespacesFillTheMap(t *testing.T) {
	objects := []runtime.Object{foreignCluster(), milanNode()}
	for i := range maxMappings + 1 {
		objects = append(objects, offloadingOf(fmt.Sprintf("n%04d", i), time.Duration(i)*time.Minute))
	}
	w := newWorld(t, objects...)
	if _, err := w.consumer(t).reconcileMap(t.Context(), "milan"); err != nil {
		t.Fatal(err)
	}
	m, err := w.federation.FederationV1alpha1().NamespaceMaps(naming.PeerNamespace("milan")).Get(t.Context(), "rome", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Namespaces) != maxMappings || m.Spec.Namespaces[0].Name != "n0001" {
		t.Errorf("%d entries, the first is %s", len(m.Spec.Namespaces), m.Spec.Namespaces[0].Name)
	}
}

func TestPhaseSumsUpTheSelectedClusters(t *testing.T) {
	answered := func(phase v1alpha1.NamespaceMappingPhase) standing {
		return standing{selected: true, asked: true, answer: &v1alpha1.NamespaceMappingStatus{Phase: phase}}
	}
	ready, refused := answered(v1alpha1.NamespaceMappingReady), answered(v1alpha1.NamespaceMappingRefused)
	for _, test := range []struct {
		name      string
		standings []standing
		want      v1alpha1.OffloadingPhase
	}{
		{"nobody lends", nil, v1alpha1.OffloadingNoClusterSelected},
		{"nobody is selected", []standing{{}}, v1alpha1.OffloadingNoClusterSelected},
		{"all are ready", []standing{ready, ready, {}}, v1alpha1.OffloadingReady},
		{"one has not answered", []standing{ready, {selected: true, asked: true}}, v1alpha1.OffloadingInProgress},
		{"one is going", []standing{answered(v1alpha1.NamespaceMappingTerminating)}, v1alpha1.OffloadingInProgress},
		{"some failed", []standing{ready, refused}, v1alpha1.OffloadingSomeFailed},
		{"all failed", []standing{refused, answered(v1alpha1.NamespaceMappingConflict)}, v1alpha1.OffloadingAllFailed},
		{"no room", []standing{{selected: true, full: true}}, v1alpha1.OffloadingAllFailed},
		{"the name is taken", []standing{{selected: true, taken: true}}, v1alpha1.OffloadingAllFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := summary(test.standings); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestStatusThatSaysTheSameIsTheSame(t *testing.T) {
	offloading := offloadingOf("shop", 0)
	standings := []standing{{cluster: "milan", selected: true, asked: true}, {cluster: "paris", selectorErr: errors.New("no")}}
	offloading.Status = statusOf(offloading, "shop", standings, v1alpha1.OffloadingInProgress, noon)
	later := statusOf(offloading, "shop", standings, v1alpha1.OffloadingInProgress, noon.Add(time.Hour))
	if diff := cmp.Diff(offloading.Status, later); diff != "" {
		t.Errorf("time alone changed the status:\n%s", diff)
	}
}

func TestLeavingWaitsForPodsAndTwinsButNotForEver(t *testing.T) {
	away := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}, Spec: corev1.PodSpec{NodeName: "liqo-milan"}}
	stopping := away.DeepCopy()
	stopping.DeletionTimestamp, stopping.Finalizers = &metav1.Time{Time: noon}, []string{"test/stays"}
	done := away.DeepCopy()
	done.Status.Phase = corev1.PodSucceeded
	here := away.DeepCopy()
	here.Spec.NodeName = "here"
	terminating := func(ago time.Duration, twin bool, away ...*corev1.Pod) *v1alpha1.NamespaceOffloading {
		offloading := leavingSince(offloadingOf("shop", time.Hour), ago)
		s := []standing{{cluster: "milan"}}
		if twin {
			s[0].answer = &v1alpha1.NamespaceMappingStatus{Name: "shop", RemoteName: "shop", Phase: v1alpha1.NamespaceMappingReady}
		}
		toldLeaving(t, offloading, s, away...)
		return offloading
	}
	released := []string{"patch namespaces", "patch namespaceoffloadings"}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		wrote   []string
		again   bool
	}{
		{
			name:    "it is said first",
			objects: []runtime.Object{leavingSince(offloadingOf("shop", time.Hour), 0), mapWith("shop"), away},
			wrote:   []string{"patch namespaceoffloadings/status"},
		},
		{
			name:    "pods on virtual nodes are called home",
			objects: []runtime.Object{terminating(0, true, away), mapWith("shop"), away},
			wrote:   []string{"delete pods"}, again: true,
		},
		{
			name:    "a pod is called once",
			objects: []runtime.Object{terminating(0, true, stopping), mapWith("shop"), stopping},
			again:   true,
		},
		{
			name:    "finished pods and pods that are here stay; the twin goes",
			objects: []runtime.Object{terminating(0, true), mapWith("shop"), done},
			wrote:   []string{"patch namespacemaps"}, again: true,
		},
		{
			name:    "when the twin is gone, so are label and finalizer",
			objects: []runtime.Object{terminating(0, false), mapWith(), here},
			wrote:   released,
		},
		{
			name:    "too late, nothing is waited for",
			objects: []runtime.Object{terminating(timeout, true), mapWith("shop"), stopping},
			wrote:   []string{"patch namespaces", "patch namespacemaps", "patch namespaceoffloadings"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, foreignCluster(), milanNode(), labelled("shop"))...)
			again, err := w.consumer(t).reconcileOffloading(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (again > 0) != test.again {
				t.Errorf("looks again after %s", again)
			}
		})
	}
}

func TestOffloadedNamespaceIsLabelledAndThenLeftInPeace(t *testing.T) {
	offloading := offloadingOf("shop", 0)
	w := newWorld(t, foreignCluster(), milanNode(), mapWith("shop"), namespace("shop", nil), offloading)
	if _, err := w.consumer(t).reconcileOffloading(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch namespaces", "create rolebindings", "patch namespaceoffloadings/status"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	settled, err := w.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if settled.Status.Phase != v1alpha1.OffloadingReady {
		t.Errorf("status %+v", settled.Status)
	}
	w = newWorld(t, foreignCluster(), milanNode(), mapWith("shop"), labelled("shop"), settled)
	c := w.consumer(t)
	if err := c.reflection.Rbac().V1().RoleBindings().Informer().GetIndexer().Add(reflectionOf("milan")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reconcileOffloading(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if writes := w.writes(); writes != nil {
		t.Errorf("a settled namespace is written: %v", writes)
	}
}

func TestAnAnswerAboutAnotherTwinIsNone(t *testing.T) {
	for _, test := range []struct {
		name, asked, answered string
		phase                 v1alpha1.NamespaceMappingPhase
		want                  string
		says                  string
	}{
		{"the one that was asked for", "shop", "shop", v1alpha1.NamespaceMappingReady, "RemoteNamespaceCreated", ""},
		{"one from before is not ready", "shop", "shop-old", v1alpha1.NamespaceMappingReady, "Pending", "shop-old"},
		{"nor has it failed", "shop", "shop-old", v1alpha1.NamespaceMappingConflict, "Pending", "has not answered yet."},
		{"nor is it ready before one is asked for", "", "shop-old", v1alpha1.NamespaceMappingReady, "Pending", "shop-old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			answered := mapWith("shop")
			answered.Spec.Namespaces[0].RemoteName = test.asked
			if test.asked == "" {
				answered.Spec.Namespaces = nil
			}
			answered.Status.Namespaces[0].RemoteName, answered.Status.Namespaces[0].Phase = test.answered, test.phase
			w := newWorld(t, foreignCluster(), milanNode(), answered, labelled("shop"), offloadingOf("shop", 0))
			if _, err := w.consumer(t).reconcileOffloading(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			told, err := w.federation.FederationV1alpha1().NamespaceOffloadings("shop").Get(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(told.Status.Clusters[0].Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != test.want || !strings.Contains(ready.Message, test.says) {
				t.Errorf("its owner is told %+v", ready)
			}
			if len(w.events.Events) > 0 {
				t.Errorf("and by %s", <-w.events.Events)
			}
		})
	}
}
