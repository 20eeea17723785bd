// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAConsumerMakesAVirtualNodeOfEachOfferedNode(t *testing.T) {
	w := consumes()
	r := w.consumer()
	offer := offered("milan", func(o *v1alpha1.ResourceOffer) {})
	w.offers = []*v1alpha1.ResourceOffer{offer}
	offers := func(change func(*v1alpha1.ResourceOfferSpec)) {
		w.offers[0] = w.offers[0].DeepCopy()
		change(&w.offers[0].Spec)
	}
	node := func(name, cpu string) v1alpha1.OfferedNode {
		return v1alpha1.OfferedNode{Name: name, Resources: list("cpu", cpu), Labels: map[string]string{"zone": name}}
	}
	ready := func() {
		for i := range w.nodes {
			w.nodes[i] = w.nodes[i].DeepCopy()
			w.nodes[i].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		}
	}
	for _, stage := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"as a whole", func() {}, []string{"milan liqo-milan  1"}},
		{"one by one: the old node stays until the new ones are ready", func() {
			w.nodes[0].Spec.APIAccess = v1alpha1.APIAccessDisabled
			offers(func(spec *v1alpha1.ResourceOfferSpec) {
				spec.Nodes = []v1alpha1.OfferedNode{node("b", "2"), node("c", "3")}
			})
		}, []string{"milan liqo-milan  1", "milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3"}},
		{"they are", ready, []string{"milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3"}},
		{"one comes", func() {
			offers(func(spec *v1alpha1.ResourceOfferSpec) {
				spec.Nodes = []v1alpha1.OfferedNode{node("a", "1"), node("b", "2"), node("c", "3")}
			})
		}, []string{"milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 1"}},
		{"one goes, and one changes", func() {
			offers(func(spec *v1alpha1.ResourceOfferSpec) {
				spec.Nodes = []v1alpha1.OfferedNode{node("a", "5"), node("c", "3")}
			})
		}, []string{"milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5"}},
		{"another one takes the free number", func() {
			offers(func(spec *v1alpha1.ResourceOfferSpec) {
				spec.Nodes = []v1alpha1.OfferedNode{node("a", "5"), node("c", "3"), node("d", "4")}
			})
		}, []string{"milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5"}},
		{"an administrator's own stays", func() {
			ready()
			w.nodes = append(w.nodes, &v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "mine"},
				Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: "mine", OfferName: "milan", Resources: list("cpu", "1")},
			})
		}, []string{"milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5", "mine mine  1"}},
		{"as a whole again", func() {
			offers(func(spec *v1alpha1.ResourceOfferSpec) { spec.Nodes = nil })
		}, []string{"milan liqo-milan  1", "milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5", "mine mine  1"}},
		{"which is ready", ready, []string{"milan liqo-milan  1", "mine mine  1"}},
		{"the offer is withdrawn", func() { offers(func(spec *v1alpha1.ResourceOfferSpec) { spec.Withdrawn = true }) }, nil},
	} {
		stage.change()
		w.pass(t, r)
		w.pass(t, r)
		var got []string
		for _, made := range w.nodes {
			cpu := made.Spec.Resources[corev1.ResourceCPU]
			got = append(got, fmt.Sprintf("%s %s %s %s", made.Name, made.Spec.NodeName, made.Spec.OfferedNode, cpu.String()))
			if made.Name != "mine" && stage.name != "as a whole" && made.Spec.APIAccess != v1alpha1.APIAccessDisabled {
				t.Errorf("%s: %s lets tokens leave that others keep", stage.name, made.Name)
			}
			if zone := made.Spec.OfferedNode; zone != "" {
				if diff := cmp.Diff(map[string]string{"topology.liqo.io/region": "north", "zone": zone}, made.Spec.Labels); diff != "" {
					t.Errorf("%s: labels of %s (-want +got):\n%s", stage.name, made.Name, diff)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(stage.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stage.name, diff)
		}
		if writes := w.pass(t, r); len(writes) > 0 && stage.want != nil {
			t.Errorf("%s: a pass with nothing to change wrote %v", stage.name, writes)
		}
	}
}

func TestAProviderThatChangesItsNodesAllTheTimeHasNoMoreOfThemHere(t *testing.T) {
	w := consumes()
	r := w.consumer()
	// They take their time to go.
	r.removeNode = func(_ context.Context, node *v1alpha1.VirtualNode) error {
		node.DeletionTimestamp = &metav1.Time{Time: now}
		return nil
	}
	offers := func(generation int) {
		w.offers = []*v1alpha1.ResourceOffer{offered("milan", func(o *v1alpha1.ResourceOffer) {
			for i := range v1alpha1.MaxOfferedNodes {
				o.Spec.Nodes = append(o.Spec.Nodes, v1alpha1.OfferedNode{Name: fmt.Sprintf("g%d-%d", generation, i), Resources: list("cpu", "1")})
			}
		})}
		w.pass(t, r)
		w.pass(t, r)
	}
	for generation := range 3 {
		offers(generation)
		if len(w.nodes) > v1alpha1.MaxOfferedNodes {
			t.Fatalf("%d virtual nodes are there", len(w.nodes))
		}
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(node *v1alpha1.VirtualNode) bool { return node.DeletionTimestamp != nil })
	offers(2)
	if len(w.nodes) != v1alpha1.MaxOfferedNodes {
		t.Errorf("%d virtual nodes are there after the others went", len(w.nodes))
	}
}

func TestVirtualNodesOfTwoClustersHaveNoNameInCommon(t *testing.T) {
	w := consumes()
	w.reserved = []string{"milan-1", "milan-3"}
	w.offers = []*v1alpha1.ResourceOffer{offered("milan", func(o *v1alpha1.ResourceOffer) {
		o.Spec.Nodes = []v1alpha1.OfferedNode{{Name: "a", Resources: list("cpu", "1")}, {Name: "b", Resources: list("cpu", "1")}}
	})}
	w.pass(t, w.consumer())
	var names []string
	for _, node := range w.nodes {
		names = append(names, node.Name)
	}
	if diff := cmp.Diff([]string{"milan-2", "milan-4"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNoNodeIsMadeTwiceWhileTheCacheLags(t *testing.T) {
	w := consumes()
	r := w.consumer()
	w.offers = []*v1alpha1.ResourceOffer{offered("milan", func(o *v1alpha1.ResourceOffer) {
		o.Spec.Nodes = []v1alpha1.OfferedNode{{Name: "b", Resources: list("cpu", "1")}}
	})}
	w.pass(t, r)
	w.unseen = 1
	w.offers[0] = w.offers[0].DeepCopy()
	w.offers[0].Spec.Nodes = append(w.offers[0].Spec.Nodes, v1alpha1.OfferedNode{Name: "a", Resources: list("cpu", "1")})
	w.pass(t, r)
	w.unseen = 0
	w.pass(t, r)
	made := map[string]string{}
	for _, node := range w.nodes {
		made[node.Name] = node.Spec.OfferedNode
	}
	if diff := cmp.Diff(map[string]string{"milan-1": "b", "milan-2": "a"}, made); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
