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

// The affinity that a pod gets at its admission does not change with its namespace: it may wait for
// nodes that the namespace is no longer offloaded to. A replacement gets the current affinity.

// Stranded returns why a pod waits for nodes of an earlier spec of its NamespaceOffloading; empty
// means that it does not, or that no controller would replace it.
func (p Placement) Stranded(pod *corev1.Pod) string {
	if !waits(pod) {
		return ""
	}
	strategy := p.strategy
	if strategy != v1alpha1.Remote && strategy != v1alpha1.Local && podspec.MountsClaims(pod) {
		// Its claims determine where it may run, and the placement does not have them.
		return ""
	}
	tolerates := toleratesVirtualNodes(pod)
	switch {
	case strategy == v1alpha1.Local && !tolerates:
		// It cannot run on virtual nodes, whatever its affinity.
		return ""
	case strategy != v1alpha1.Local && !tolerates:
		return "it was created for local nodes only."
	case !confinedTo(pod, p.alternatives(strategy)):
		return "it was created for nodes that the spec no longer allows."
	}
	return ""
}

// StrandedOnProviders reports whether a pod without a node may be bound to a virtual node although
// its namespace is unoffloaded, and a controller would replace it.
func StrandedOnProviders(pod *corev1.Pod) bool {
	return waits(pod) && toleratesVirtualNodes(pod) && !confinedTo(pod, Placement{}.alternatives(v1alpha1.Local))
}

// waits reports whether a pod has no node yet, and a controller would replace it.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !podspec.Finished(pod) && pod.DeletionTimestamp.IsZero() &&
		!podspec.BelongsToItsNode(pod) && metav1.GetControllerOfNoCopy(pod) != nil
}

func virtual(operator corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelType, Operator: operator, Values: []string{v1alpha1.TypeVirtualNode},
	}
}

// alternatives returns the terms of which the policy federation-placement adds one to each term of
// a new pod; nil means that the pod may run anywhere.
func (p Placement) alternatives(strategy v1alpha1.PodOffloadingStrategy) []corev1.NodeSelectorTerm {
	local := corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{virtual(corev1.NodeSelectorOpNotIn)},
	}
	remote := virtual(corev1.NodeSelectorOpIn)
	var selected []corev1.NodeSelectorTerm
	for _, term := range p.terms {
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			selected = append(selected, corev1.NodeSelectorTerm{
				MatchExpressions: append([]corev1.NodeSelectorRequirement{remote}, term.MatchExpressions...),
				MatchFields:      term.MatchFields,
			})
		}
	}
	if len(p.terms) == 0 {
		selected = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{remote}}}
	}
	switch {
	case strategy == v1alpha1.Local:
		return []corev1.NodeSelectorTerm{local}
	case strategy == v1alpha1.Remote:
		return selected
	case len(p.terms) == 0:
		return nil
	}
	return append([]corev1.NodeSelectorTerm{local}, selected...)
}

// confinedTo reports whether each required term of a pod contains one of the alternatives.
func confinedTo(pod *corev1.Pod, alternatives []corev1.NodeSelectorTerm) bool {
	if len(alternatives) == 0 {
		return true
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
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
		return !slices.ContainsFunc(all, func(other corev1.NodeSelectorRequirement) bool {
			return equality.Semantic.DeepEqual(one, other)
		})
	})
}

func toleratesVirtualNodes(pod *corev1.Pod) bool {
	taint := &corev1.Taint{Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute}
	return scheduling.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, false)
}
