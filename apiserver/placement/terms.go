// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Toleration is the toleration of virtual nodes, which pods of offloaded namespaces get.
var Toleration = corev1.Toleration{
	Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoExecute,
}

// tolerated reports whether the pod tolerates virtual nodes without tolerationSeconds.
func tolerated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Operator == "" {
			t.Operator = corev1.TolerationOpEqual
		}
		return t == Toleration
	})
}

// allowedTerms returns the node selector terms for a scope. selector are the terms of spec.clusterSelector of the
// NamespaceOffloading. A node is permitted if it matches at least one of the returned terms. Nil permits all nodes.
func allowedTerms(s scope, selector []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	local := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.TypeVirtualNode}},
	}}
	switch {
	case s.strategy == v1alpha1.Local:
		return []corev1.NodeSelectorTerm{local}
	case s.strategy == v1alpha1.Remote:
		return remoteTerms(s.clusters, selector)
	case len(selector) == 0 && s.clusters == nil:
		return nil
	}
	return append([]corev1.NodeSelectorTerm{local}, remoteTerms(s.clusters, selector)...)
}

// remoteTerms returns the terms for virtual nodes that belong to one of the clusters and match the
// selector. Nil clusters mean all clusters. The result is not nil, so that an empty result permits no
// node.
func remoteTerms(clusters []string, selector []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	virtual := []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpIn, Values: []string{v1alpha1.TypeVirtualNode}},
	}
	if clusters != nil {
		virtual = append(virtual, corev1.NodeSelectorRequirement{
			Key: v1alpha1.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: clusters,
		})
	}
	remote := corev1.NodeSelectorTerm{MatchExpressions: virtual}
	if len(selector) == 0 {
		return []corev1.NodeSelectorTerm{remote}
	}
	return product([]corev1.NodeSelectorTerm{remote}, selector)
}

// and returns terms that a node matches if it matches both a required term of the pod's node affinity
// and one of the allowed terms. If no node can, the result is one empty term, which matches no node.
func and(pod *corev1.Pod, allowed []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	terms := allowed
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if own := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; own != nil {
			terms = product(own.NodeSelectorTerms, allowed)
		}
	}
	if len(terms) == 0 {
		return []corev1.NodeSelectorTerm{{}}
	}
	return terms
}

// product returns one term for each pair of a left and a right term, with the requirements of both.
// Pairs with an empty term are omitted, because an empty term matches no node.
func product(left, right []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	terms := []corev1.NodeSelectorTerm{}
	for _, l := range left {
		for _, r := range right {
			if isEmpty(l) || isEmpty(r) {
				continue
			}
			terms = append(terms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(l.MatchExpressions, r.MatchExpressions),
				MatchFields:      slices.Concat(l.MatchFields, r.MatchFields),
			})
		}
	}
	return terms
}

func isEmpty(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions)+len(term.MatchFields) == 0
}
