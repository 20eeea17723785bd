// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func offeredNode(name, cpu string) v1alpha1.OfferedNode {
	return v1alpha1.OfferedNode{Name: name, Resources: list("cpu", cpu), Labels: map[string]string{"zone": name}}
}

func withNodes(nodes ...v1alpha1.OfferedNode) func(*v1alpha1.ResourceOffer) {
	return func(offer *v1alpha1.ResourceOffer) { offer.Spec.Nodes = nodes }
}

func TestEachOfferedNodeHasAVirtualNode(t *testing.T) {
	w := newWorld(t)
	w.offer("milan")
	offers := func(nodes ...v1alpha1.OfferedNode) func() {
		return func() { w.changeOffer("milan", withNodes(nodes...)) }
	}
	ready := func() {
		for _, node := range w.nodes() {
			w.changeNode(node.Name, func(node *v1alpha1.VirtualNode) {
				node.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			})
		}
	}
	for _, stage := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"shape Aggregate", func() {}, []string{"milan liqo-milan  1"}},
		{"shape PerNode: the old node stays until the new ones are ready", func() {
			w.changeNode("milan", func(node *v1alpha1.VirtualNode) { node.Spec.APIAccess = v1alpha1.APIAccessDisabled })
			offers(offeredNode("b", "2"), offeredNode("c", "3"))()
		}, []string{"milan liqo-milan  1", "milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3"}},
		{"the nodes are ready", ready, []string{"milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3"}},
		{"a node is added", offers(offeredNode("a", "1"), offeredNode("b", "2"), offeredNode("c", "3")),
			[]string{"milan-1 liqo-milan-1 b 2", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 1"}},
		{"a node is removed, and one changes", offers(offeredNode("a", "5"), offeredNode("c", "3")),
			[]string{"milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5"}},
		{"another node has the free number", offers(offeredNode("a", "5"), offeredNode("c", "3"), offeredNode("d", "4")),
			[]string{"milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5"}},
		{"an administrator's virtual node stays", func() {
			ready()
			w.Add(&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: peerOf, Name: "mine"},
				Spec: v1alpha1.VirtualNodeSpec{
					ClusterID: milanID, NodeName: "mine", OfferName: "milan", Resources: list("cpu", "1"),
				},
			})
		}, []string{"milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5", "mine mine  1"}},
		{"shape Aggregate again", offers(),
			[]string{"milan liqo-milan  1", "milan-1 liqo-milan-1 d 4", "milan-2 liqo-milan-2 c 3", "milan-3 liqo-milan-3 a 5",
				"mine mine  1"}},
		{"the node of the aggregate is ready", ready, []string{"milan liqo-milan  1", "mine mine  1"}},
		{"the offer is withdrawn", func() { w.withdraw("milan") }, nil},
	} {
		stage.change()
		w.pass()
		w.pass()
		var got []string
		for _, node := range w.nodes() {
			cpu := node.Spec.Resources[corev1.ResourceCPU]
			got = append(got, fmt.Sprintf("%s %s %s %s", node.Name, node.Spec.NodeName, node.Spec.OfferedNode, cpu.String()))
			if node.Name != "mine" && stage.name != "shape Aggregate" && node.Spec.APIAccess != v1alpha1.APIAccessDisabled {
				t.Errorf("%s: %s sends tokens, which the others do not", stage.name, node.Name)
			}
			if zone := node.Spec.OfferedNode; zone != "" {
				if diff := cmp.Diff(map[string]string{"topology.liqo.io/region": "north", "zone": zone},
					node.Spec.Labels); diff != "" {
					t.Errorf("%s: labels of %s (-want +got):\n%s", stage.name, node.Name, diff)
				}
			}
		}
		if diff := cmp.Diff(stage.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stage.name, diff)
		}
		w.rests(stage.name)
	}
}

func TestVirtualNodesThatAreBeingDeletedCountAgainstTheLimit(t *testing.T) {
	w := newWorld(t)
	hold := func(finalizers ...string) {
		for _, node := range w.nodes() {
			if node.DeletionTimestamp == nil || finalizers == nil {
				w.changeNode(node.Name, func(node *v1alpha1.VirtualNode) { node.Finalizers = finalizers })
			}
		}
	}
	offers := func(generation int) {
		var nodes []v1alpha1.OfferedNode
		for i := range v1alpha1.MaxOfferedNodes {
			nodes = append(nodes, v1alpha1.OfferedNode{Name: fmt.Sprintf("g%d-%d", generation, i), Resources: list("cpu", "1")})
		}
		w.changeOffer("milan", withNodes(nodes...))
		w.pass()
		hold(v1alpha1.Finalizer)
		w.pass()
	}
	w.offer("milan", withNodes(offeredNode("first", "1")))
	for generation := range 3 {
		offers(generation)
		if len(w.nodes()) > v1alpha1.MaxOfferedNodes {
			t.Fatalf("%d virtual nodes exist", len(w.nodes()))
		}
	}
	for _, node := range w.nodes() {
		if node.DeletionTimestamp != nil {
			w.changeNode(node.Name, func(node *v1alpha1.VirtualNode) { node.Finalizers = nil })
		}
	}
	offers(2)
	if len(w.nodes()) != v1alpha1.MaxOfferedNodes {
		t.Errorf("%d virtual nodes exist after the others were deleted", len(w.nodes()))
	}
}

func TestVirtualNodesOfTwoClustersHaveDifferentNames(t *testing.T) {
	w := newWorld(t)
	w.Add(&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}}, &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-other", Name: "any"},
		Spec:       v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan-3"},
	})
	w.offer("milan", withNodes(offeredNode("a", "1"), offeredNode("b", "1")))
	w.pass()
	var names []string
	for _, node := range w.nodes() {
		names = append(names, node.Name)
	}
	if diff := cmp.Diff([]string{"milan-2", "milan-4"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestNoVirtualNodeIsCreatedTwiceWhileTheCacheLags(t *testing.T) {
	w := newWorld(t)
	w.offer("milan", withNodes(offeredNode("b", "1")))
	w.pass()
	w.changeOffer("milan", withNodes(offeredNode("b", "1"), offeredNode("a", "1")))
	w.Client = w.Cache(func(object client.Object) bool { return object.GetName() != "milan-1" })
	w.pass()
	w.Client = w.Controller
	w.pass()
	created := map[string]string{}
	for _, node := range w.nodes() {
		created[node.Name] = node.Spec.OfferedNode
	}
	if diff := cmp.Diff(map[string]string{"milan-1": "b", "milan-2": "a"}, created); diff != "" {
		t.Errorf("virtual nodes (-want +got):\n%s", diff)
	}
}
