// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
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
	"liqo.io/federation/controllers/kit/kittest"
)

// worker returns a node with a number of CPUs; the lower its number, the older it is.
func worker(number int, cpu string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%d", number), UID: types.UID(fmt.Sprintf("uid-%d", number)),
			CreationTimestamp: metav1.NewTime(kittest.Epoch.Add(time.Duration(number) * time.Hour)),
			Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("worker-%d", number),
				corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", number%2)},
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

// shares returns the offered CPUs of each worker by the name of the worker.
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
		{"schedulable nodes", nil, []*corev1.Node{worker(1, "4"), worker(2, "8"), worker(3, "8", cordoned),
			worker(4, "8", virtual)}, half, map[string]string{"worker-1": "2", "worker-2": "4"}},
		{"a node that is cordoned later is offered without resources", []*corev1.Node{worker(1, "4"), worker(2, "8")},
			[]*corev1.Node{worker(1, "4", cordoned), worker(2, "8")}, half, map[string]string{"worker-1": "0", "worker-2": "4"}},
		{"a deleted node is removed", []*corev1.Node{worker(1, "4"), worker(2, "8")}, []*corev1.Node{worker(2, "8")},
			half, map[string]string{"worker-2": "4"}},
		{"an offer without nodes has no resources", []*corev1.Node{worker(1, "4")}, nil, half, map[string]string{"": "0"}},
		{"a new node replaces the last one", []*corev1.Node{worker(1, "4")}, []*corev1.Node{worker(2, "4")}, half,
			map[string]string{"worker-2": "2"}},
		{"the limit is spent on the oldest nodes first", nil, []*corev1.Node{worker(3, "8"), worker(2, "8"), worker(1, "8")},
			atMost("5"), map[string]string{"worker-1": "4", "worker-2": "1"}},
		{"the limit is spent on offered nodes first", []*corev1.Node{worker(2, "8")},
			[]*corev1.Node{worker(1, "8"), worker(2, "8")}, atMost("5"), map[string]string{"worker-1": "1", "worker-2": "4"}},
		{"an offered node above a lower limit has no resources", []*corev1.Node{worker(1, "8"), worker(2, "8")},
			[]*corev1.Node{worker(1, "8"), worker(2, "8")}, atMost("3"), map[string]string{"worker-1": "3", "worker-2": "0"}},
		{"a limit of zero offers no CPU", nil, []*corev1.Node{worker(1, "8")}, atMost("0"), map[string]string{"worker-1": "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			offered := offerNodes(test.nodes, test.terms, romeID, offerNodes(test.before, half, romeID, nil))
			if diff := cmp.Diff(test.want, shares(test.nodes, offered)); diff != "" {
				t.Errorf("CPUs (-want +got):\n%s", diff)
			}
			if again := offerNodes(test.nodes, test.terms, romeID, offered); nodesDiffer(offered, again, 5) ||
				!equality.Semantic.DeepEqual(offered, again) {
				t.Errorf("offered again they are %v, want %v", again, offered)
			}
		})
	}

	offered := offerNodes(many, half, romeID, nil)
	if len(offered) != v1alpha1.MaxOfferedNodes {
		t.Fatalf("%d nodes are offered", len(offered))
	}
	many[0].Spec.Unschedulable = false
	if again := offerNodes(many, half, romeID, offered); !equality.Semantic.DeepEqual(offered, again) {
		t.Error("a node that is schedulable again replaced one that was offered")
	}
}

func TestOfferedNodesHaveOnlyTheSelectedLabels(t *testing.T) {
	nodes := []*corev1.Node{worker(1, "4")}
	terms := terms{percent: 100, most: corev1.ResourceList{},
		nodeLabels: []string{corev1.LabelTopologyZone, corev1.LabelArchStable}}
	offered := offerNodes(nodes, terms, romeID, nil)
	want := []v1alpha1.OfferedNode{{Name: offeredNode(nodes[0], romeID), Resources: list("cpu", "4", "pods", "100"),
		Labels: map[string]string{corev1.LabelTopologyZone: "zone-1"}}}
	if !equality.Semantic.DeepEqual(want, offered) {
		t.Errorf("got %v, want %v", offered, want)
	}
	if another := offeredNode(nodes[0], milanID); another == offered[0].Name {
		t.Errorf("two consumers are offered the node as %s", another)
	}
}

func TestOfferedNodesDiffer(t *testing.T) {
	one := func(cpu string, labels map[string]string) v1alpha1.OfferedNode {
		return v1alpha1.OfferedNode{Name: "a", Resources: list("cpu", cpu), Labels: labels}
	}
	other := v1alpha1.OfferedNode{Name: "b", Resources: list("cpu", "1")}
	type nodes = []v1alpha1.OfferedNode
	for _, test := range []struct {
		name              string
		offered, possible nodes
		want              bool
	}{
		{"no difference", nodes{one("1", nil)}, nodes{one("1", map[string]string{})}, false},
		{"a change below the percentage", nodes{one("1000m", nil)}, nodes{one("1049m", nil)}, false},
		{"a change above the percentage", nodes{one("1000m", nil)}, nodes{one("1060m", nil)}, true},
		{"resources that become zero", nodes{one("1", nil)}, nodes{one("0", nil)}, true},
		{"resources that were zero", nodes{one("0", nil)}, nodes{one("1", nil)}, true},
		{"another zone", nodes{one("1", nil)}, nodes{one("1", map[string]string{"zone": "a"})}, true},
		{"a node is added", nodes{other}, nodes{one("1", nil), other}, true},
		{"a removed node", nodes{one("1", nil), other}, nodes{other}, true},
		{"a replaced node", nodes{one("1", nil)}, nodes{other}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := nodesDiffer(test.offered, test.possible, 5); got != test.want {
				t.Errorf("differ: %v", got)
			}
		})
	}
}

// The resources of an offered node do not exceed its real node, all offered nodes together do not exceed
// the limits, and only existing nodes are offered.
func TestOfferedNodesAreNoLargerThanTheRealOnes(t *testing.T) {
	quantity := func(t *rapid.T, name corev1.ResourceName) resource.Quantity {
		if name == corev1.ResourceMemory {
			return *resource.NewQuantity(rapid.Int64Range(0, 64<<30).Draw(t, "memory"), resource.BinarySI)
		}
		return *resource.NewMilliQuantity(rapid.Int64Range(0, 64_000).Draw(t, "cpu"), resource.DecimalSI)
	}
	rapid.Check(t, func(t *rapid.T) {
		terms := terms{percent: rapid.IntRange(1, 100).Draw(t, "percent"), most: corev1.ResourceList{},
			nodeLabels: []string{corev1.LabelTopologyZone}}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if rapid.Bool().Draw(t, "limits "+string(name)) {
				terms.most[name] = quantity(t, name)
			}
		}
		var nodes []*corev1.Node
		for number := range rapid.IntRange(0, 40).Draw(t, "nodes") {
			node := worker(number, "1")
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: quantity(t, corev1.ResourceCPU),
				corev1.ResourceMemory: quantity(t, corev1.ResourceMemory), corev1.ResourcePods: resource.MustParse("110")}
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
					t.Fatalf("%s is offered, and does not exist", share.Name)
				}
				continue
			}
			if short := quota.Short(node.Status.Allocatable, nil, share.Resources); len(short) > 0 {
				t.Fatalf("%s has more than its node: %s", share.Name, quota.Sentence(short))
			}
			if node.Spec.Unschedulable && len(quota.Short(nil, nil, share.Resources)) > 0 {
				t.Fatalf("%s is not schedulable, and is offered with %v", share.Name, share.Resources)
			}
		}
		together := total(offered)
		for name, limit := range terms.most {
			if sum := together[name]; sum.Cmp(limit) > 0 {
				t.Fatalf("%s of %s is offered in all, the limit is %s", sum.String(), name, limit.String())
			}
		}
		if whole := percentage(allocatable(nodes, nil), terms.percent,
			terms.most); len(quota.Short(whole, nil, together)) > 0 {
			t.Fatalf("one by one they are %v, and as a whole %v", together, whole)
		}
		if len(offered) > v1alpha1.MaxOfferedNodes {
			t.Fatalf("%d nodes are offered", len(offered))
		}
		if again := offerNodes(rapid.Permutation(nodes).Draw(t, "again"), terms, romeID, offered); nodesDiffer(offered, again,
			5) {
			t.Fatalf("they differ by themselves, from %v to %v: an idle cluster would not stop writing", offered, again)
		}
	})
}

func TestOfferOfNodesFollowsThem(t *testing.T) {
	policy := DefaultPolicy()
	policy.SharePercent, policy.Shape = 50, string(v1alpha1.OfferPerNode)
	nodes := []*corev1.Node{worker(1, "4"), worker(2, "8")}
	w := newWorld(t, policy, nodes...)
	shape := func(shape v1alpha1.OfferShape) {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.Shape = shape })
	}
	for _, stage := range []struct {
		name   string
		change func()
		want   map[string]string
		all    string
	}{
		{"two nodes", func() {}, map[string]string{"worker-1": "2", "worker-2": "4"}, "6"},
		{"a node changes too little", func() { nodes[0] = worker(1, "4100m") },
			map[string]string{"worker-1": "2", "worker-2": "4"}, "6"},
		{"a node changes enough, and the sum too little", func() { nodes[0] = worker(1, "4250m") },
			map[string]string{"worker-1": "2125m", "worker-2": "4"}, "6125m"},
		{"a node is added", func() { nodes = append(nodes, worker(3, "2")) },
			map[string]string{"worker-1": "2125m", "worker-2": "4", "worker-3": "1"}, "7125m"},
		{"a node is cordoned", func() { nodes[1] = worker(2, "8", cordoned) },
			map[string]string{"worker-1": "2125m", "worker-2": "0", "worker-3": "1"}, "3125m"},
		{"a node is deleted", func() { nodes = nodes[1:] }, map[string]string{"worker-2": "0", "worker-3": "1"}, "1"},
		{"shape Aggregate", func() { shape(v1alpha1.OfferAggregate) }, map[string]string{}, "1"},
		{"default shape again", func() { shape("") }, map[string]string{"worker-3": "1"}, "1"},
		{"all nodes are deleted", func() { nodes = nil }, map[string]string{"": "0"}, "0"},
	} {
		stage.change()
		w.setNodes(nodes...)
		w.pass()
		spec := w.offer().Spec
		if diff := cmp.Diff(stage.want, shares(nodes, spec.Nodes)); diff != "" {
			t.Errorf("%s: CPUs (-want +got):\n%s", stage.name, diff)
		}
		if cpu := text(spec.Resources)["cpu"]; cpu != stage.all {
			t.Errorf("%s: %s CPUs are offered in all, want %s", stage.name, cpu, stage.all)
		}
		w.rests(stage.name)
	}
}

func TestPodsOfAnOfferedNodeArePlacedOnIt(t *testing.T) {
	shared := map[string]string{"pool": "shared"}
	one := worker(1, "4", func(node *corev1.Node) { node.Labels["pool"] = "shared" })
	name := offeredNode(one, romeID)
	offers := []*v1alpha1.ResourceOffer{{Spec: v1alpha1.ResourceOfferSpec{Nodes: []v1alpha1.OfferedNode{
		{Name: "another", Labels: map[string]string{"zone": "b"}}, {Name: name,
			Labels: map[string]string{"zone": "a", "pool": "before"}},
	}}}}
	for _, test := range []struct {
		name    string
		node    *corev1.Node
		offered string
		labels  map[string]string
		on      string
	}{
		{"on the node, among nodes with its labels", one, name, map[string]string{"zone": "a", "pool": "shared"}, "worker-1"},
		{"among nodes with its labels while it is not schedulable", worker(1, "4", cordoned), name,
			map[string]string{"zone": "a", "pool": "shared"}, ""},
		{"among nodes with its labels when it is no longer shared", worker(1, "4"), name,
			map[string]string{"zone": "a", "pool": "shared"}, ""},
		{"on any shared node if it is not offered", one, "unknown", shared, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			labels, node := Place([]*corev1.Node{worker(2, "4"), test.node}, offers, shared, romeID, test.offered)
			if diff := cmp.Diff(test.labels, labels); diff != "" || node != test.on {
				t.Errorf("on node %q, labels (-want +got):\n%s", node, diff)
			}
		})
	}
}

func TestInvalidShapesAndLabelsOfNodesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"an unknown shape":   func(p *Policy) { p.Shape = "Round" },
		"an invalid label":   func(p *Policy) { p.NodeLabels = []string{"a b"} },
		"the name of a node": func(p *Policy) { p.NodeLabels = []string{corev1.LabelHostname} },
		"too many labels":    func(p *Policy) { p.NodeLabels = make([]string, maxNodeLabels+1) },
	} {
		policy := DefaultPolicy()
		change(&policy)
		if len(policy.Validate()) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}
