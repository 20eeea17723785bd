// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// tolerations are those that a pod may take along: of taints that somebody
// has put on nodes for pods like it. Conditions and roles of nodes are each
// cluster's own, and so are its virtual nodes; the provider refuses pods that
// tolerate everything.
func tolerations(local []corev1.Toleration) []corev1.Toleration {
	return slices.DeleteFunc(local, func(t corev1.Toleration) bool {
		prefix, _, _ := strings.Cut(t.Key, "/")
		return t.Key == "" || t.Key == v1alpha1.TaintVirtualNode ||
			prefix == "node.kubernetes.io" || prefix == "node-role.kubernetes.io" || prefix == "node.cloudprovider.kubernetes.io"
	})
}

// affinity is what a pod may take along of its affinities: those to pods of
// its own namespace. Nodes are the provider's to choose, and so are the pods
// of other namespaces no business of this one. Staying are the labels that
// stay home.
func affinity(local *corev1.Affinity, pod *corev1.Pod, staying []string) *corev1.Affinity {
	if local == nil {
		return nil
	}
	result := corev1.Affinity{
		PodAffinity: terms(local.PodAffinity, pod, staying, false),
		// They have the same fields.
		PodAntiAffinity: (*corev1.PodAntiAffinity)(terms((*corev1.PodAffinity)(local.PodAntiAffinity), pod, staying, true)),
	}
	if result == (corev1.Affinity{}) {
		return nil
	}
	return &result
}

// terms are those that travel, or nil.
func terms(local *corev1.PodAffinity, pod *corev1.Pod, staying []string, apart bool) *corev1.PodAffinity {
	if local == nil {
		return nil
	}
	result := &corev1.PodAffinity{}
	for _, term := range local.RequiredDuringSchedulingIgnoredDuringExecution {
		if travels(&term, pod, apart) && settle(&term, pod, staying) {
			result.RequiredDuringSchedulingIgnoredDuringExecution = append(result.RequiredDuringSchedulingIgnoredDuringExecution, term)
		}
	}
	for _, term := range local.PreferredDuringSchedulingIgnoredDuringExecution {
		if travels(&term.PodAffinityTerm, pod, apart) && settle(&term.PodAffinityTerm, pod, staying) {
			result.PreferredDuringSchedulingIgnoredDuringExecution = append(result.PreferredDuringSchedulingIgnoredDuringExecution, term)
		}
	}
	if len(result.RequiredDuringSchedulingIgnoredDuringExecution)+len(result.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	return result
}

// travels tells whether a term makes sense on the provider, limited to the
// pods of its own namespace. One that keeps pods apart still does so among
// fewer of them; one that brings pods together could wait for ever for one
// that is elsewhere.
func travels(term *corev1.PodAffinityTerm, pod *corev1.Pod, apart bool) bool {
	if ofVirtualNodes(term.TopologyKey) {
		return false
	}
	if term.NamespaceSelector == nil && !slices.ContainsFunc(term.Namespaces, func(name string) bool { return name != pod.Namespace }) {
		return true
	}
	everywhere := term.NamespaceSelector != nil && len(term.NamespaceSelector.MatchLabels)+len(term.NamespaceSelector.MatchExpressions) == 0
	return apart && (everywhere || slices.Contains(term.Namespaces, pod.Namespace))
}

// settle limits a term to the pods of its own namespace, and tells whether it
// still says what it did.
func settle(term *corev1.PodAffinityTerm, pod *corev1.Pod, staying []string) bool {
	term.Namespaces, term.NamespaceSelector = nil, nil
	selectByKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels, staying)
	selectByKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels, staying)
	term.MatchLabelKeys, term.MismatchLabelKeys = nil, nil
	return !selectsBy(term.LabelSelector, staying)
}

// spread is how the pods of a namespace are spread over the provider's nodes.
// The domains of this cluster's virtual nodes are not known there, nor are the
// labels that stay home.
func spread(local []corev1.TopologySpreadConstraint, pod *corev1.Pod, staying []string) []corev1.TopologySpreadConstraint {
	var kept []corev1.TopologySpreadConstraint
	for _, constraint := range local {
		selectByKeys(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels, staying)
		constraint.MatchLabelKeys = nil
		if !ofVirtualNodes(constraint.TopologyKey) && !selectsBy(constraint.LabelSelector, staying) {
			kept = append(kept, constraint)
		}
	}
	return kept
}

// selectByKeys makes of the keys of labels what the API server makes of them
// in a new pod. It has done so in most local pods, and refuses, in the copy, a
// key that a selector has already. A key whose label stays home says nothing,
// as any does whose label a pod does not have.
func selectByKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string, staying []string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		value, ok := labels[key]
		wanted := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
		isWanted := func(r metav1.LabelSelectorRequirement) bool { return equality.Semantic.DeepEqual(r, wanted) }
		switch {
		case slices.Contains(staying, key):
			selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, isWanted)
		case ok && !slices.ContainsFunc(selector.MatchExpressions, isWanted):
			selector.MatchExpressions = append(selector.MatchExpressions, wanted)
		}
	}
}

// selectsBy tells whether a selector looks at one of these labels. Where no pod
// has them, it selects other pods than it is meant to, or none.
func selectsBy(selector *metav1.LabelSelector, keys []string) bool {
	if selector == nil {
		return false
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		_, named := selector.MatchLabels[key]
		return named || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
	})
}

// ofVirtualNodes tells whether a label is one of virtual nodes, which no node
// of a provider has.
func ofVirtualNodes(label string) bool {
	prefix, _, _ := strings.Cut(label, "/")
	return prefix == "liqo.io" || strings.HasSuffix(prefix, ".liqo.io")
}
