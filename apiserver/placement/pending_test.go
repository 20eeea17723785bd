// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/test/placements"
)

// requiring returns a function that sets the required node affinity of a pod, with one term for each
// list of requirements.
func requiring(terms ...[]corev1.NodeSelectorRequirement) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		selector := &corev1.NodeSelector{}
		for _, term := range terms {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
		}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	}
}

func TestPodsThatWaitForNodesOfAnEarlierSpecAreMisplaced(t *testing.T) {
	owned := placements.OwnedBy("apps/v1", "ReplicaSet")
	tolerant := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpEqual,
			Value: "true", Effect: corev1.TaintEffectNoExecute}}
	}
	claims := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	local := placements.Requirement(v1alpha1.LabelType, corev1.NodeSelectorOpNotIn, v1alpha1.TypeVirtualNode)
	onProviders := placements.Requirement(v1alpha1.LabelType, corev1.NodeSelectorOpIn, v1alpha1.TypeVirtualNode)
	north, south := placements.Requirement("region", corev1.NodeSelectorOpIn, "north"),
		placements.Requirement("region", corev1.NodeSelectorOpIn, "south")
	fast := placements.Requirement("disk", corev1.NodeSelectorOpIn, "fast")
	type term = []corev1.NodeSelectorRequirement
	const other, localOnly = "it was created for nodes that the spec no longer allows.",
		"it was created for local nodes only."

	for _, test := range []struct {
		name        string
		strategy    v1alpha1.PodOffloadingStrategy
		selector    []term
		pod         *corev1.Pod
		want        string
		onProviders bool
	}{
		{"by the current spec", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, requiring(term{onProviders, north})), "", true},
		{"with terms of its own", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, requiring(term{fast, onProviders, north})), "", true},
		{"for another region", v1alpha1.Remote, []term{{south}}, placements.PodOn("", owned, tolerant, requiring(term{onProviders, north})), other, true},
		{"for one region of two", v1alpha1.Remote, []term{{north}, {south}}, placements.PodOn("", owned, tolerant, requiring(term{onProviders, north})), "", true},
		{"for two regions of one", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, requiring(term{onProviders, north}, term{onProviders, south})), other, true},
		{"for virtual nodes, and this cluster is required", v1alpha1.Local, nil, placements.PodOn("", owned, tolerant, requiring(term{onProviders})), other, true},
		{"for this cluster, which is required", v1alpha1.Local, nil, placements.PodOn("", owned, requiring(term{local})), "", false},
		{"for this cluster, and providers are required", v1alpha1.Remote, nil, placements.PodOn("", owned, requiring(term{local})), localOnly, false},
		{"for all clusters, and providers are required", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, requiring(term{local}, term{onProviders, north})), other, true},
		{"before the namespace was offloaded", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned), localOnly, false},
		{"before, with a selector", v1alpha1.LocalAndRemote, []term{{north}}, placements.PodOn("", owned), localOnly, false},
		{"before, and the strategy is Local", v1alpha1.Local, nil, placements.PodOn("", owned), "", false},
		{"runs in any cluster", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned, tolerant), "", true},
		{"its claims keep it in this cluster", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned, claims, requiring(term{local})), "", false},
		{"its claims do not count if providers are required", v1alpha1.Remote, nil, placements.PodOn("", owned, claims, requiring(term{local})), localOnly, false},
		{"a term of nothing matches nothing", v1alpha1.Local, nil, placements.PodOn("", owned, requiring(term{}, term{local})), "", false},
		{"an empty term of the selector selects nothing", v1alpha1.Remote, []term{{}, {north}}, placements.PodOn("", owned, tolerant, requiring(term{onProviders})), other, true},
		{"no controller creates another one", v1alpha1.Local, nil, placements.PodOn("", tolerant, requiring(term{onProviders})), "", false},
		{"has a node", v1alpha1.Local, nil, placements.PodOn("liqo-milan", owned, tolerant, requiring(term{onProviders})), "", false},
		{"is being deleted", v1alpha1.Local, nil, placements.PodOn("", owned, terminating, requiring(term{onProviders})), "", false},
		{"owned by a DaemonSet", v1alpha1.Local, nil, placements.PodOn("", placements.OwnedBy("apps/v1", "DaemonSet"), requiring(term{onProviders})), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: test.strategy}
			for _, requirements := range test.selector {
				spec.ClusterSelector.NodeSelectorTerms = append(spec.ClusterSelector.NodeSelectorTerms,
					corev1.NodeSelectorTerm{MatchExpressions: requirements})
			}
			placed, err := placement.NewPlacement(spec, nil, func(string) *corev1.Node { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if got := placed.MisplacedPending(test.pod); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := placement.MayStillBindToVirtualNode(test.pod); got != test.onProviders {
				t.Errorf("where the namespace is unoffloaded: %t", got)
			}
		})
	}
}
