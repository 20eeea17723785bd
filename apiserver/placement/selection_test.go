// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

func virtualNode(labels map[string]string) *v1alpha1.VirtualNode {
	return &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: "milan-id", NodeName: "liqo-milan",
		Labels: labels}}
}

func TestClusterSelectorFollowsTheRulesOfTheScheduler(t *testing.T) {
	italy := placements.Requirement("region", corev1.NodeSelectorOpIn, "it")
	gpu := placements.Requirement("gpu", corev1.NodeSelectorOpExists)
	for _, test := range []struct {
		name        string
		terms       []corev1.NodeSelectorTerm
		virtualNode map[string]string
		node        map[string]string
		want        bool
	}{
		{name: "no terms select everything", want: true},
		{name: "a term that matches", terms: []corev1.NodeSelectorTerm{placements.Term(italy)}, node: map[string]string{"region": "it"}, want: true},
		{name: "a term that does not match", terms: []corev1.NodeSelectorTerm{placements.Term(italy)}, node: map[string]string{"region": "fr"}},
		{name: "all requirements of a term", terms: []corev1.NodeSelectorTerm{placements.Term(italy, gpu)}, node: map[string]string{"region": "it"}},
		{name: "any term", terms: []corev1.NodeSelectorTerm{placements.Term(italy), placements.Term(gpu)}, node: map[string]string{"gpu": ""}, want: true},
		{name: "an empty term selects nothing", terms: []corev1.NodeSelectorTerm{{}}, node: map[string]string{"region": "it"}},
		{
			name:        "labels of the Node count, not those of the VirtualNode",
			terms:       []corev1.NodeSelectorTerm{placements.Term(italy)},
			virtualNode: map[string]string{"region": "it"}, node: map[string]string{"region": "fr"},
		},
		{
			name: "without a Node, labels of the VirtualNode count",
			terms: []corev1.NodeSelectorTerm{placements.Term(italy,
				placements.Requirement(v1alpha1.LabelRemoteClusterID, corev1.NodeSelectorOpIn, "milan-id"))},
			virtualNode: map[string]string{"region": "it"}, want: true,
		},
		{
			name: "a node by its name",
			terms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				placements.Requirement(metav1.ObjectNameField, corev1.NodeSelectorOpIn, "liqo-milan"),
			}}},
			want: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			selector, err := placement.NewClusterSelector(corev1.NodeSelector{NodeSelectorTerms: test.terms})
			if err != nil {
				t.Fatal(err)
			}
			var node *corev1.Node
			if test.node != nil {
				node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan", Labels: test.node}}
			}
			if got := selector.Selects(virtualNode(test.virtualNode), node); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestMalformedClusterSelectorIsAnError(t *testing.T) {
	_, err := placement.NewClusterSelector(corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		placements.Term(placements.Requirement("region", corev1.NodeSelectorOpGt, "a", "b")),
	}})
	if err == nil {
		t.Error("a comparison with two values was accepted")
	}
}

func TestAdditionalTermNeverDeselectsACluster(t *testing.T) {
	keys := rapid.SampledFrom([]string{"region", "gpu", "tier"})
	values := rapid.SampledFrom([]string{"a", "b"})
	terms := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		operator := rapid.SampledFrom([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn,
			corev1.NodeSelectorOpNotIn}).Draw(t, "operator")
		return placements.Term(placements.Requirement(keys.Draw(t, "key"), operator, values.Draw(t, "value")))
	})
	rapid.Check(t, func(t *rapid.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: rapid.MapOf(keys, values).Draw(t, "labels")}}
		some := rapid.SliceOfN(terms, 1, 4).Draw(t, "terms")
		more := append(append([]corev1.NodeSelectorTerm{}, some...), terms.Draw(t, "another"))
		few, err := placement.NewClusterSelector(corev1.NodeSelector{NodeSelectorTerms: some})
		if err != nil {
			t.Fatal(err)
		}
		many, err := placement.NewClusterSelector(corev1.NodeSelector{NodeSelectorTerms: more})
		if err != nil {
			t.Fatal(err)
		}
		if few.Selects(virtualNode(nil), node) && !many.Selects(virtualNode(nil), node) {
			t.Fatalf("%v is selected by %v, not by %v", node.Labels, some, more)
		}
	})
}
