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

// asking has a pod ask for nodes, by one term for each list of requirements.
func asking(terms ...[]corev1.NodeSelectorRequirement) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		selector := &corev1.NodeSelector{}
		for _, term := range terms {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	}
}

func TestPodsThatWaitByWhatWasSaidBeforeAreStranded(t *testing.T) {
	owned := placements.OwnedBy("apps/v1", "ReplicaSet")
	tolerant := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoExecute}}
	}
	claims := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
	home := placements.Requirement(v1alpha1.LabelType, corev1.NodeSelectorOpNotIn, v1alpha1.TypeVirtualNode)
	abroad := placements.Requirement(v1alpha1.LabelType, corev1.NodeSelectorOpIn, v1alpha1.TypeVirtualNode)
	north, south := placements.Requirement("region", corev1.NodeSelectorOpIn, "north"), placements.Requirement("region", corev1.NodeSelectorOpIn, "south")
	fast := placements.Requirement("disk", corev1.NodeSelectorOpIn, "fast")
	type term = []corev1.NodeSelectorRequirement
	const other, homeAlone = "it was made for other nodes than those that it may have now.", "it was made for nodes of this cluster alone."

	for _, test := range []struct {
		name     string
		strategy v1alpha1.PodOffloadingStrategy
		selector []term
		pod      *corev1.Pod
		want     string
		abroad   bool
	}{
		{"made by what counts", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, asking(term{abroad, north})), "", true},
		{"with terms of its own", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, asking(term{fast, abroad, north})), "", true},
		{"for another region", v1alpha1.Remote, []term{{south}}, placements.PodOn("", owned, tolerant, asking(term{abroad, north})), other, true},
		{"for one region of two", v1alpha1.Remote, []term{{north}, {south}}, placements.PodOn("", owned, tolerant, asking(term{abroad, north})), "", true},
		{"for two regions of one", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, asking(term{abroad, north}, term{abroad, south})), other, true},
		{"for virtual nodes, and is to stay", v1alpha1.Local, nil, placements.PodOn("", owned, tolerant, asking(term{abroad})), other, true},
		{"for home, and is to stay", v1alpha1.Local, nil, placements.PodOn("", owned, asking(term{home})), "", false},
		{"for home, and is to go", v1alpha1.Remote, nil, placements.PodOn("", owned, asking(term{home})), homeAlone, false},
		{"for home or abroad, and is to go", v1alpha1.Remote, []term{{north}}, placements.PodOn("", owned, tolerant, asking(term{home}, term{abroad, north})), other, true},
		{"before the namespace was offloaded", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned), homeAlone, false},
		{"before, with a selector", v1alpha1.LocalAndRemote, []term{{north}}, placements.PodOn("", owned), homeAlone, false},
		{"before, and is to stay", v1alpha1.Local, nil, placements.PodOn("", owned), "", false},
		{"for anywhere", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned, tolerant), "", true},
		{"its claims keep it at home", v1alpha1.LocalAndRemote, nil, placements.PodOn("", owned, claims, asking(term{home})), "", false},
		{"its claims do not, where it has to go", v1alpha1.Remote, nil, placements.PodOn("", owned, claims, asking(term{home})), homeAlone, false},
		{"a term of nothing matches nothing", v1alpha1.Local, nil, placements.PodOn("", owned, asking(term{}, term{home})), "", false},
		{"an empty term of the selector selects nothing", v1alpha1.Remote, []term{{}, {north}}, placements.PodOn("", owned, tolerant, asking(term{abroad})), other, true},
		{"nobody would make another one", v1alpha1.Local, nil, placements.PodOn("", tolerant, asking(term{abroad})), "", false},
		{"it has a node", v1alpha1.Local, nil, placements.PodOn("liqo-milan", owned, tolerant, asking(term{abroad})), "", false},
		{"it is ending", v1alpha1.Local, nil, placements.PodOn("", owned, terminating, asking(term{abroad})), "", false},
		{"it is of a DaemonSet", v1alpha1.Local, nil, placements.PodOn("", placements.OwnedBy("apps/v1", "DaemonSet"), asking(term{abroad})), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: test.strategy}
			for _, requirements := range test.selector {
				spec.ClusterSelector.NodeSelectorTerms = append(spec.ClusterSelector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: requirements})
			}
			placed, err := placement.NewPlacement(spec, nil, func(string) *corev1.Node { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if got := placed.Stranded(test.pod); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := placement.StrandedAbroad(test.pod); got != test.abroad {
				t.Errorf("where the namespace comes home: %t", got)
			}
		})
	}
}
