// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// affinity returns the pod affinities to forward, limited to the pod's own namespace, because pods of other namespaces
// are not in the remote namespace. It drops the node affinity, because the provider chooses nodes, and terms that
// select by an excluded label.
func affinity(local *corev1.Affinity, pod *corev1.Pod, excluded []string) *corev1.Affinity {
	if local == nil {
		return nil
	}
	result := corev1.Affinity{
		PodAffinity: affinityTerms(local.PodAffinity, pod, excluded, false),
		// PodAffinity and PodAntiAffinity have the same fields.
		PodAntiAffinity: (*corev1.PodAntiAffinity)(
			affinityTerms((*corev1.PodAffinity)(local.PodAntiAffinity), pod, excluded, true),
		),
	}
	if result == (corev1.Affinity{}) {
		return nil
	}
	return &result
}

// affinityTerms returns the terms to forward, or nil if there are none. apart is true for anti-affinity.
func affinityTerms(local *corev1.PodAffinity, pod *corev1.Pod, excluded []string, apart bool) *corev1.PodAffinity {
	if local == nil {
		return nil
	}
	result := &corev1.PodAffinity{}
	for _, term := range local.RequiredDuringSchedulingIgnoredDuringExecution {
		if isForwarded(&term, pod, apart) && limitToNamespace(&term, pod, excluded) {
			result.RequiredDuringSchedulingIgnoredDuringExecution = append(
				result.RequiredDuringSchedulingIgnoredDuringExecution,
				term,
			)
		}
	}
	for _, term := range local.PreferredDuringSchedulingIgnoredDuringExecution {
		if isForwarded(&term.PodAffinityTerm, pod, apart) && limitToNamespace(&term.PodAffinityTerm, pod, excluded) {
			result.PreferredDuringSchedulingIgnoredDuringExecution = append(
				result.PreferredDuringSchedulingIgnoredDuringExecution,
				term,
			)
		}
	}
	if len(
		result.RequiredDuringSchedulingIgnoredDuringExecution,
	)+len(
		result.PreferredDuringSchedulingIgnoredDuringExecution,
	) == 0 {
		return nil
	}
	return result
}

// isForwarded reports whether a term still has its purpose on the provider when it is limited to the pod's namespace.
// An anti-affinity term then keeps the pod apart from fewer pods. An affinity term for pods of other namespaces could
// never be satisfied.
func isForwarded(term *corev1.PodAffinityTerm, pod *corev1.Pod, apart bool) bool {
	if ofVirtualNodes(term.TopologyKey) {
		return false
	}
	if term.NamespaceSelector == nil &&
		!slices.ContainsFunc(term.Namespaces, func(name string) bool { return name != pod.Namespace }) {
		return true
	}
	everywhere := term.NamespaceSelector != nil &&
		len(term.NamespaceSelector.MatchLabels)+len(term.NamespaceSelector.MatchExpressions) == 0
	return apart && (everywhere || slices.Contains(term.Namespaces, pod.Namespace))
}

// limitToNamespace limits a term to the pods of the pod's namespace. It returns false if the term
// selects by a label that remote pods do not have, because it is excluded.
func limitToNamespace(term *corev1.PodAffinityTerm, pod *corev1.Pod, excluded []string) bool {
	term.Namespaces, term.NamespaceSelector = nil, nil
	selectByKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels, excluded)
	selectByKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels, excluded)
	term.MatchLabelKeys, term.MismatchLabelKeys = nil, nil
	return !selectsBy(term.LabelSelector, excluded)
}

// spreadConstraints returns the topology spread constraints to forward. It drops constraints with a topology key of
// virtual nodes or with an excluded label, because no node or pod on the provider has them.
func spreadConstraints(
	local []corev1.TopologySpreadConstraint,
	pod *corev1.Pod,
	excluded []string,
) []corev1.TopologySpreadConstraint {
	var kept []corev1.TopologySpreadConstraint
	for _, constraint := range local {
		selectByKeys(
			constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels, excluded,
		)
		constraint.MatchLabelKeys = nil
		if !ofVirtualNodes(constraint.TopologyKey) && !selectsBy(constraint.LabelSelector, excluded) {
			kept = append(kept, constraint)
		}
	}
	return kept
}

// selectByKeys merges matchLabelKeys or mismatchLabelKeys into a selector, as the API server does when a pod is
// created. Most local pods have the merged selector already, and the provider refuses a shadow pod with a key in both
// fields. It ignores keys of labels that the pod does not have, and removes the requirement for an excluded label.
func selectByKeys(
	selector *metav1.LabelSelector,
	keys []string,
	operator metav1.LabelSelectorOperator,
	labels map[string]string,
	excluded []string,
) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		value, ok := labels[key]
		desired := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
		isDesired := func(r metav1.LabelSelectorRequirement) bool { return equality.Semantic.DeepEqual(r, desired) }
		switch {
		case slices.Contains(excluded, key):
			selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, isDesired)
		case ok && !slices.ContainsFunc(selector.MatchExpressions, isDesired):
			selector.MatchExpressions = append(selector.MatchExpressions, desired)
		}
	}
}

// selectsBy reports whether a selector names one of these labels. Without the label on any pod, the selector matches no
// pods or unintended ones.
func selectsBy(selector *metav1.LabelSelector, keys []string) bool {
	if selector == nil {
		return false
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		_, named := selector.MatchLabels[key]
		hasKey := func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }
		return named || slices.ContainsFunc(selector.MatchExpressions, hasKey)
	})
}

// ofVirtualNodes reports whether a label has a prefix that only labels of virtual nodes have.
func ofVirtualNodes(label string) bool {
	prefix, _, _ := strings.Cut(label, "/")
	return prefix == "liqo.io" || strings.HasSuffix(prefix, ".liqo.io")
}
