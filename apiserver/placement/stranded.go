// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// What a pod is held to when it is made stays with it: it may wait for nodes that
// its namespace does not extend to any more. Another pod in its place is held to
// what counts now.

// Stranded returns why a pod waits for a node by what its NamespaceOffloading said
// before; empty means that it does not, or that nobody would make another one.
func (p Placement) Stranded(pod *corev1.Pod) string {
	if !waits(pod) {
		return ""
	}
	strategy := p.strategy
	if strategy != v1alpha1.Remote && strategy != v1alpha1.Local && podspec.MountsClaims(pod) {
		// Its claims decide where it may run, and they are not known here.
		return ""
	}
	abroad := toleratesVirtualNodes(pod)
	switch {
	case strategy == v1alpha1.Local && !abroad:
		// No virtual node takes it, whatever it asks for.
		return ""
	case strategy != v1alpha1.Local && !abroad:
		return "it was made for nodes of this cluster alone."
	case !heldTo(pod, p.alternatives(strategy)):
		return "it was made for other nodes than those that it may have now."
	}
	return ""
}

// StrandedOnProviders reports whether a pod that waits for a node may be given one of
// another cluster, though its namespace comes home, and another one would be made
// in its place.
func StrandedOnProviders(pod *corev1.Pod) bool {
	return waits(pod) && toleratesVirtualNodes(pod) && !heldTo(pod, Placement{}.alternatives(v1alpha1.Local))
}

// waits reports whether a pod has no node yet, and a controller creates another one when
// it is gone.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !podspec.Finished(pod) && pod.DeletionTimestamp.IsZero() && !podspec.BelongsToItsNode(pod) && metav1.GetControllerOfNoCopy(pod) != nil
}

func virtual(operator corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: v1alpha1.LabelType, Operator: operator, Values: []string{v1alpha1.TypeVirtualNode}}
}

// alternatives are the terms of which the policy federation-placement adds one
// to each of a new pod's own; none means: anywhere.
func (p Placement) alternatives(strategy v1alpha1.PodOffloadingStrategy) []corev1.NodeSelectorTerm {
	home := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{virtual(corev1.NodeSelectorOpNotIn)}}
	abroad := virtual(corev1.NodeSelectorOpIn)
	var selected []corev1.NodeSelectorTerm
	for _, term := range p.terms {
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			selected = append(selected, corev1.NodeSelectorTerm{
				MatchExpressions: append([]corev1.NodeSelectorRequirement{abroad}, term.MatchExpressions...), MatchFields: term.MatchFields,
			})
		}
	}
	if len(p.terms) == 0 {
		selected = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{abroad}}}
	}
	switch {
	case strategy == v1alpha1.Local:
		return []corev1.NodeSelectorTerm{home}
	case strategy == v1alpha1.Remote:
		return selected
	case len(p.terms) == 0:
		return nil
	}
	return append([]corev1.NodeSelectorTerm{home}, selected...)
}

// heldTo reports whether every node that a pod asks for is of one of some
// alternatives.
func heldTo(pod *corev1.Pod, alternatives []corev1.NodeSelectorTerm) bool {
	if len(alternatives) == 0 {
		return true
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			// It matches nothing.
			continue
		}
		if !slices.ContainsFunc(alternatives, func(of corev1.NodeSelectorTerm) bool {
			return containsAll(term.MatchExpressions, of.MatchExpressions) && containsAll(term.MatchFields, of.MatchFields)
		}) {
			return false
		}
	}
	return true
}

func containsAll(all, some []corev1.NodeSelectorRequirement) bool {
	return !slices.ContainsFunc(some, func(one corev1.NodeSelectorRequirement) bool {
		return !slices.ContainsFunc(all, func(other corev1.NodeSelectorRequirement) bool { return equality.Semantic.DeepEqual(one, other) })
	})
}

func toleratesVirtualNodes(pod *corev1.Pod) bool {
	taint := &corev1.Taint{Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute}
	return scheduling.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, false)
}
