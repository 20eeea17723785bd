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
// of other namespaces no business of this one.
func affinity(local *corev1.Affinity, pod *corev1.Pod) *corev1.Affinity {
	if local == nil {
		return nil
	}
	result := &corev1.Affinity{}
	if a := local.PodAffinity; a != nil {
		required, preferred := terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, pod, false)
		if len(required)+len(preferred) > 0 {
			result.PodAffinity = &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			}
		}
	}
	if a := local.PodAntiAffinity; a != nil {
		required, preferred := terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, pod, true)
		if len(required)+len(preferred) > 0 {
			result.PodAntiAffinity = &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			}
		}
	}
	if *result == (corev1.Affinity{}) {
		return nil
	}
	return result
}

func terms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, pod *corev1.Pod, apart bool) ([]corev1.PodAffinityTerm, []corev1.WeightedPodAffinityTerm) {
	required = slices.DeleteFunc(required, func(t corev1.PodAffinityTerm) bool { return !travels(&t, pod, apart) })
	for i := range required {
		settle(&required[i], pod)
	}
	preferred = slices.DeleteFunc(preferred, func(t corev1.WeightedPodAffinityTerm) bool { return !travels(&t.PodAffinityTerm, pod, apart) })
	for i := range preferred {
		settle(&preferred[i].PodAffinityTerm, pod)
	}
	return required, preferred
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

// settle limits a term to the pods of its own namespace.
func settle(term *corev1.PodAffinityTerm, pod *corev1.Pod) {
	term.Namespaces, term.NamespaceSelector = nil, nil
	selectByKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	selectByKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	term.MatchLabelKeys, term.MismatchLabelKeys = nil, nil
}

// spread is how the pods of a namespace are spread over the provider's nodes.
// The domains of this cluster's virtual nodes are not known there.
func spread(local []corev1.TopologySpreadConstraint, pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	result := slices.DeleteFunc(local, func(c corev1.TopologySpreadConstraint) bool { return ofVirtualNodes(c.TopologyKey) })
	for i := range result {
		selectByKeys(result[i].LabelSelector, result[i].MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		result[i].MatchLabelKeys = nil
	}
	return result
}

// selectByKeys makes of the keys of labels what the API server makes of them
// in a new pod. It has done so in most local pods, and refuses, in the copy, a
// key that a selector has already.
func selectByKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		value, ok := labels[key]
		wanted := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
		if ok && !slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return equality.Semantic.DeepEqual(r, wanted) }) {
			selector.MatchExpressions = append(selector.MatchExpressions, wanted)
		}
	}
}

// ofVirtualNodes tells whether a label is one of virtual nodes, which no node
// of a provider has.
func ofVirtualNodes(label string) bool {
	prefix, _, _ := strings.Cut(label, "/")
	return prefix == "liqo.io" || strings.HasSuffix(prefix, ".liqo.io")
}
