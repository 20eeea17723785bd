// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placements has a table of pods in offloaded namespaces, and of the nodes on which they
// may run. It is the test of all implementations of placement: the admission policy
// federation-placement, the webhook for placement reviews, and the function placement.Decide.
package placements

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Cluster IDs of the providers.
const (
	Milan = "33333333-3333-4333-8333-333333333331"
	Paris = "33333333-3333-4333-8333-333333333332"
	Turin = "33333333-3333-4333-8333-333333333333"
)

// Nodes are the nodes of the consumer: two local nodes, and a virtual node for each of three providers.
var Nodes = []*corev1.Node{
	node("worker", map[string]string{}),
	node("worker-it", map[string]string{"region": "it", "disk": "fast"}),
	virtualNode("milan", Milan, map[string]string{"region": "it"}),
	virtualNode("turin", Turin, map[string]string{"region": "it", "disk": "fast", "gpu": ""}),
	virtualNode("paris", Paris, map[string]string{"region": "fr", "disk": "fast"}),
}

// Strategies are all pod offloading strategies. An empty one is the default.
var Strategies = []v1alpha1.PodOffloadingStrategy{v1alpha1.Local, v1alpha1.Remote, v1alpha1.LocalAndRemote, ""}

// Selectors are cluster selectors by name.
var Selectors = map[string][]corev1.NodeSelectorTerm{
	"all clusters":  nil,
	"one term":      {Expressions(In("region", "it"))},
	"two terms":     {Expressions(In("region", "fr")), Expressions(In("region", "it"), Exists("gpu"))},
	"a node's name": {Named("liqo-milan")},
}

// Affinities are required node affinities of pods, by name. nil means that a pod has none.
var Affinities = map[string][]corev1.NodeSelectorTerm{
	"anywhere":              nil,
	"one term":              {Expressions(In("disk", "fast"))},
	"two terms":             {Expressions(In("disk", "fast")), Expressions(In("region", "it"))},
	"a node's name":         {Named("liqo-milan")},
	"a name or a label":     {Named("worker"), Expressions(Exists("gpu"))},
	"a term for no node":    {{}},
	"that term and another": {{}, Expressions(In("disk", "fast"))},
	"not virtual": {Expressions(corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpDoesNotExist,
	})},
}

// Allows reports whether a pod without claims may run on a node, given the strategy and the
// selector of its namespace, and its own required node affinity.
func Allows(t *testing.T, strategy v1alpha1.PodOffloadingStrategy, selector, own []corev1.NodeSelectorTerm,
	node *corev1.Node,
) bool {
	t.Helper()
	virtual := node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
	switch {
	case own != nil && !selects(t, own, node),
		strategy == v1alpha1.Local && virtual,
		strategy == v1alpha1.Remote && !virtual,
		virtual && selector != nil && !selects(t, selector, node):
		return false
	}
	return true
}

// Fits reports whether the scheduler would place a pod on a node, by required node affinity and
// taints.
func Fits(t *testing.T, pod *corev1.Pod, node *corev1.Node) bool {
	t.Helper()
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(t.Context()), node.Spec.Taints,
		pod.Spec.Tolerations, func(*corev1.Taint) bool { return true }, true)
	return matches && !untolerated
}

// FittingNodes returns the names of the nodes for which Fits is true.
func FittingNodes(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	names := []string{}
	for _, node := range Nodes {
		if Fits(t, pod, node) {
			names = append(names, node.Name)
		}
	}
	return names
}

// Pod returns a pod with these terms as its required node affinity. nil means that it has none.
func Pod(terms []corev1.NodeSelectorTerm) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
	if terms != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	return pod
}

// In returns a requirement that a label has one of these values.
func In(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// Exists returns a requirement that a label exists.
func Exists(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
}

// Expressions returns a node selector term with these requirements of labels.
func Expressions(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

// Named returns a node selector term that only the node with this name matches.
func Named(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{In(metav1.ObjectNameField, node)}}
}

func selects(t *testing.T, terms []corev1.NodeSelectorTerm, node *corev1.Node) bool {
	t.Helper()
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err != nil {
		t.Fatal(err)
	}
	return selector.Match(node)
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func virtualNode(cluster, id string, labels map[string]string) *corev1.Node {
	labels[v1alpha1.LabelType], labels[v1alpha1.LabelRemoteClusterID] = v1alpha1.TypeVirtualNode, id
	node := node(v1alpha1.VirtualNodePrefix+cluster, labels)
	node.Spec.Taints = []corev1.Taint{
		{Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute},
	}
	return node
}
