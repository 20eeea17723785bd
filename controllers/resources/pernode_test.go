// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
)

// worker is a node, as old as its number is small, with so many CPUs.
func worker(number int, cpu string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%d", number), UID: types.UID(fmt.Sprintf("uid-%d", number)),
			CreationTimestamp: metav1.NewTime(now.Add(time.Duration(number) * time.Hour)),
			Labels:            map[string]string{corev1.LabelHostname: fmt.Sprintf("worker-%d", number), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", number%2)},
		},
		Status: corev1.NodeStatus{Allocatable: list("cpu", cpu, "pods", "100")},
	}
	for _, c := range change {
		c(node)
	}
	return node
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func virtual(node *corev1.Node) { node.Labels[v1alpha1.LabelType] = v1alpha1.TypeVirtualNode }

// shares are the CPUs that are offered of each worker, by its number.
func shares(nodes []*corev1.Node, offered []v1alpha1.OfferedNode) map[string]string {
	names := map[string]string{}
	for _, node := range nodes {
		names[offeredNode(node, romeID)] = node.Name
	}
	cpus := map[string]string{}
	for _, node := range offered {
		cpu := node.Resources[corev1.ResourceCPU]
		cpus[names[node.Name]] = cpu.String()
	}
	return cpus
}

func TestNodesAreOfferedOneByOne(t *testing.T) {
	half := terms{percent: 50, most: corev1.ResourceList{}, perNode: true, nodeLabels: []string{corev1.LabelTopologyZone}}
	atMost := func(cpu string) terms {
		limited := half
		limited.most = list("cpu", cpu)
		return limited
	}
	var many []*corev1.Node
	for number := range v1alpha1.MaxOfferedNodes + 2 {
		many = append(many, worker(number, "2", func(node *corev1.Node) {
			if number == 0 {
				cordoned(node)
			}
		}))
	}
	for _, test := range []struct {
		name          string
		before, nodes []*corev1.Node
		terms         terms
		want          map[string]string
	}{
		{"those that take work", nil, []*corev1.Node{worker(1, "4"), worker(2, "8"), worker(3, "8", cordoned), worker(4, "8", virtual)}, half, map[string]string{"worker-1": "2", "worker-2": "4"}},
		{"one that is cordoned later has nothing", []*corev1.Node{worker(1, "4"), worker(2, "8")}, []*corev1.Node{worker(1, "4", cordoned), worker(2, "8")}, half, map[string]string{"worker-1": "0", "worker-2": "4"}},
		{"one that is gone is not there", []*corev1.Node{worker(1, "4"), worker(2, "8")}, []*corev1.Node{worker(2, "8")}, half, map[string]string{"worker-2": "4"}},
		{"the last ones stay with nothing", []*corev1.Node{worker(1, "4")}, nil, half, map[string]string{"": "0"}},
		{"until there are others", []*corev1.Node{worker(1, "4")}, []*corev1.Node{worker(2, "4")}, half, map[string]string{"worker-2": "2"}},
		{"the oldest first, while there may be more", nil, []*corev1.Node{worker(3, "8"), worker(2, "8"), worker(1, "8")}, atMost("5"), map[string]string{"worker-1": "4", "worker-2": "1"}},
		{"those before the others that were offered", []*corev1.Node{worker(2, "8")}, []*corev1.Node{worker(1, "8"), worker(2, "8")}, atMost("5"), map[string]string{"worker-1": "1", "worker-2": "4"}},
		{"what does not fit a lower limit stays with nothing", []*corev1.Node{worker(1, "8"), worker(2, "8")}, []*corev1.Node{worker(1, "8"), worker(2, "8")}, atMost("3"), map[string]string{"worker-1": "3", "worker-2": "0"}},
		{"no CPU where none is lent", nil, []*corev1.Node{worker(1, "8")}, atMost("0"), map[string]string{"worker-1": "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			offered := offerNodes(test.nodes, test.terms, romeID, offerNodes(test.before, half, romeID, nil))
			if diff := cmp.Diff(test.want, shares(test.nodes, offered)); diff != "" {
				t.Errorf("CPUs (-want +got):\n%s", diff)
			}
			if again := offerNodes(test.nodes, test.terms, romeID, offered); nodesMoved(offered, again, 5) || !equality.Semantic.DeepEqual(offered, again) {
				t.Errorf("the second time they are %v, not %v", again, offered)
			}
		})
	}

	offered := offerNodes(many, half, romeID, nil)
	if len(offered) != v1alpha1.MaxOfferedNodes {
		t.Fatalf("%d nodes are offered", len(offered))
	}
	many[0].Spec.Unschedulable = false
	if again := offerNodes(many, half, romeID, offered); !equality.Semantic.DeepEqual(offered, again) {
		t.Error("a node that takes work again took the place of one that was offered")
	}
}

func TestAnOfferedNodeTellsWhatItMayAndNothingElse(t *testing.T) {
	nodes := []*corev1.Node{worker(1, "4")}
	told := terms{percent: 100, most: corev1.ResourceList{}, nodeLabels: []string{corev1.LabelTopologyZone, corev1.LabelArchStable}}
	offered := offerNodes(nodes, told, romeID, nil)
	want := []v1alpha1.OfferedNode{{Name: offeredNode(nodes[0], romeID), Resources: list("cpu", "4", "pods", "100"), Labels: map[string]string{corev1.LabelTopologyZone: "zone-1"}}}
	if !equality.Semantic.DeepEqual(want, offered) {
		t.Errorf("got %v, want %v", offered, want)
	}
	if another := offeredNode(nodes[0], milanID); another == offered[0].Name {
		t.Errorf("two consumers both know the node as %s", another)
	}
}

func TestOfferedNodesMove(t *testing.T) {
	one := func(cpu string, labels map[string]string) v1alpha1.OfferedNode {
		return v1alpha1.OfferedNode{Name: "a", Resources: list("cpu", cpu), Labels: labels}
	}
	other := v1alpha1.OfferedNode{Name: "b", Resources: list("cpu", "1")}
	type nodes = []v1alpha1.OfferedNode
	for _, test := range []struct {
		name           string
		offered, could nodes
		want           bool
	}{
		{"not at all", nodes{one("1", nil)}, nodes{one("1", map[string]string{})}, false},
		{"a little", nodes{one("1000m", nil)}, nodes{one("1049m", nil)}, false},
		{"enough", nodes{one("1000m", nil)}, nodes{one("1060m", nil)}, true},
		{"to nothing", nodes{one("1", nil)}, nodes{one("0", nil)}, true},
		{"from nothing", nodes{one("0", nil)}, nodes{one("1", nil)}, true},
		{"to another zone", nodes{one("1", nil)}, nodes{one("1", map[string]string{"zone": "a"})}, true},
		{"one comes", nodes{other}, nodes{one("1", nil), other}, true},
		{"one goes", nodes{one("1", nil), other}, nodes{other}, true},
		{"one for another", nodes{one("1", nil)}, nodes{other}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := nodesMoved(test.offered, test.could, 5); got != test.want {
				t.Errorf("nodesMoved = %v", got)
			}
		})
	}
}

// Whatever fits an offered node fits the real one, all of them together are
// within what may be lent, and none is offered that was not there.
func TestOfferedNodesAreNoLargerThanTheRealOnes(t *testing.T) {
	quantity := func(t *rapid.T, name corev1.ResourceName) resource.Quantity {
		if name == corev1.ResourceMemory {
			return *resource.NewQuantity(rapid.Int64Range(0, 64<<30).Draw(t, "memory"), resource.BinarySI)
		}
		return *resource.NewMilliQuantity(rapid.Int64Range(0, 64_000).Draw(t, "cpu"), resource.DecimalSI)
	}
	rapid.Check(t, func(t *rapid.T) {
		terms := terms{percent: rapid.IntRange(1, 100).Draw(t, "percent"), most: corev1.ResourceList{}, nodeLabels: []string{corev1.LabelTopologyZone}}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if rapid.Bool().Draw(t, "limits "+string(name)) {
				terms.most[name] = quantity(t, name)
			}
		}
		var nodes []*corev1.Node
		for number := range rapid.IntRange(0, 40).Draw(t, "nodes") {
			node := worker(number, "1")
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: quantity(t, corev1.ResourceCPU), corev1.ResourceMemory: quantity(t, corev1.ResourceMemory), corev1.ResourcePods: resource.MustParse("110")}
			nodes = append(nodes, node)
		}
		before := offerNodes(rapid.Permutation(nodes).Draw(t, "before"), terms, romeID, nil)
		for _, node := range nodes {
			node.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		}
		nodes = nodes[:rapid.IntRange(0, len(nodes)).Draw(t, "left")]
		offered := offerNodes(nodes, terms, romeID, before)

		actual := map[string]*corev1.Node{}
		for _, node := range nodes {
			actual[offeredNode(node, romeID)] = node
		}
		for _, share := range offered {
			node := actual[share.Name]
			if node == nil {
				if len(actual) > 0 && len(offered) > len(actual) || len(quota.Short(nil, nil, share.Resources)) > 0 {
					t.Fatalf("%s is offered, and is not there", share.Name)
				}
				continue
			}
			if short := quota.Short(node.Status.Allocatable, nil, share.Resources); len(short) > 0 {
				t.Fatalf("%s has more than its node: %s", share.Name, quota.Sentence(short))
			}
			if node.Spec.Unschedulable && len(quota.Short(nil, nil, share.Resources)) > 0 {
				t.Fatalf("%s takes no work, and is offered with %v", share.Name, share.Resources)
			}
		}
		together := inAll(offered)
		for name, limit := range terms.most {
			if sum := together[name]; sum.Cmp(limit) > 0 {
				t.Fatalf("%s of %s is offered in all, and %s may be", sum.String(), name, limit.String())
			}
		}
		if whole := Offer(Allocatable(nodes, nil), terms.percent, terms.most); len(quota.Short(whole, nil, together)) > 0 {
			t.Fatalf("one by one they are %v, and as a whole %v", together, whole)
		}
		if len(offered) > v1alpha1.MaxOfferedNodes {
			t.Fatalf("%d nodes are offered", len(offered))
		}
		if again := offerNodes(rapid.Permutation(nodes).Draw(t, "again"), terms, romeID, offered); nodesMoved(offered, again, 5) {
			t.Fatalf("they have moved by themselves from %v to %v: an idle cluster would write for ever", offered, again)
		}
	})
}

func TestAnOfferOfNodesFollowsThem(t *testing.T) {
	w := provides()
	w.machines = []*corev1.Node{worker(1, "4"), worker(2, "8")}
	policy := DefaultPolicy()
	policy.SharePercent, policy.Shape = 50, string(v1alpha1.OfferPerNode)
	r := w.provider(policy)
	for _, stage := range []struct {
		name   string
		change func()
		want   map[string]string
		all    string
	}{
		{"two are there", func() {}, map[string]string{"worker-1": "2", "worker-2": "4"}, "6"},
		{"one changes too little", func() { w.machines[0] = worker(1, "4100m") }, map[string]string{"worker-1": "2", "worker-2": "4"}, "6"},
		{"one changes enough, however little that is of all", func() { w.machines[0] = worker(1, "4250m") }, map[string]string{"worker-1": "2125m", "worker-2": "4"}, "6125m"},
		{"one comes", func() { w.machines = append(w.machines, worker(3, "2")) }, map[string]string{"worker-1": "2125m", "worker-2": "4", "worker-3": "1"}, "7125m"},
		{"one is cordoned", func() { w.machines[1] = worker(2, "8", cordoned) }, map[string]string{"worker-1": "2125m", "worker-2": "0", "worker-3": "1"}, "3125m"},
		{"one is gone", func() { w.machines = w.machines[1:] }, map[string]string{"worker-2": "0", "worker-3": "1"}, "1"},
		{"this consumer is offered them as a whole", func() { w.fc.Spec.Lending.Shape = v1alpha1.OfferAggregate }, map[string]string{}, "1"},
		{"and one by one again", func() { w.fc.Spec.Lending.Shape = "" }, map[string]string{"worker-3": "1"}, "1"},
		{"all are gone", func() { w.machines = nil }, map[string]string{"": "0"}, "0"},
	} {
		stage.change()
		w.pass(t, r)
		spec := w.offers[0].Spec
		if diff := cmp.Diff(stage.want, shares(w.machines, spec.Nodes)); diff != "" {
			t.Errorf("%s: CPUs (-want +got):\n%s", stage.name, diff)
		}
		if cpu := text(spec.Resources)["cpu"]; cpu != stage.all {
			t.Errorf("%s: %s CPUs are offered in all, not %s", stage.name, cpu, stage.all)
		}
		if writes := w.pass(t, r); len(writes) > 0 {
			t.Errorf("%s: a pass with nothing to change wrote %v", stage.name, writes)
		}
	}
}

func TestPodsOfAnOfferedNodeRunWhereItIs(t *testing.T) {
	lent := map[string]string{"pool": "lent"}
	one := worker(1, "4", func(node *corev1.Node) { node.Labels["pool"] = "lent" })
	name := offeredNode(one, romeID)
	offers := []*v1alpha1.ResourceOffer{{Spec: v1alpha1.ResourceOfferSpec{Nodes: []v1alpha1.OfferedNode{
		{Name: "another", Labels: map[string]string{"zone": "b"}}, {Name: name, Labels: map[string]string{"zone": "a", "pool": "before"}},
	}}}}
	for _, test := range []struct {
		name    string
		node    *corev1.Node
		offered string
		labels  map[string]string
		on      string
	}{
		{"on it, among those that are like it", one, name, map[string]string{"zone": "a", "pool": "lent"}, "worker-1"},
		{"among those that are like it while it takes no work", worker(1, "4", cordoned), name, map[string]string{"zone": "a", "pool": "lent"}, ""},
		{"among those that are like it when it is not shared any more", worker(1, "4"), name, map[string]string{"zone": "a", "pool": "lent"}, ""},
		{"anywhere if nobody knows it", one, "unknown", lent, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			labels, node := Place([]*corev1.Node{worker(2, "4"), test.node}, offers, lent, romeID, test.offered)
			if diff := cmp.Diff(test.labels, labels); diff != "" || node != test.on {
				t.Errorf("on %q, labels (-want +got):\n%s", node, diff)
			}
		})
	}
}

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

func TestShapesAndLabelsOfNodesThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"a shape of one's own": func(p *Policy) { p.Shape = "Round" },
		"what is no label":     func(p *Policy) { p.NodeLabels = []string{"a b"} },
		"a name of a node":     func(p *Policy) { p.NodeLabels = []string{corev1.LabelHostname} },
		"too many labels":      func(p *Policy) { p.NodeLabels = make([]string, maxNodeLabels+1) },
	} {
		policy := DefaultPolicy()
		change(&policy)
		if len(policy.Validate()) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}
