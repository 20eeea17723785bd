// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxWeight is the highest weight that a preference can have.
const maxWeight = 100

// requireNodes restricts a pod to nodes with these labels, in addition to its own required node affinity.
// If no node fulfils both, the pod is not scheduled.
func requireNodes(spec *corev1.PodSpec, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	var shared []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		shared = append(shared, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]},
		})
	}
	affinity := nodeAffinity(spec)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: shared}},
		}
		return
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		// A term without requirements matches no node. If the labels were added to it, it would match some.
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchExpressions = append(term.MatchExpressions, shared...)
		}
	}
}

// preferNode adds the strongest preference for a node to the affinity of a pod. The pod runs on another node
// if that node has no room.
func preferNode(spec *corev1.PodSpec, node string) {
	if node == "" {
		return
	}
	preferred := &nodeAffinity(spec).PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{
		Weight: maxWeight,
		Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}},
	})
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return spec.Affinity.NodeAffinity
}
