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

// Admission adds a node affinity to each new pod, which does not change when the NamespaceOffloading
// changes. A pending pod can thus wait for nodes that are no longer permitted. Its replacement gets the
// current affinity.

// MisplacedPending returns the reason for which a pending pod is misplaced: its node affinity and tolerations follow an
// earlier spec of its NamespaceOffloading instead of the current one. It returns an empty string for other pods, and
// for pods that no controller would replace.
func (p Placement) MisplacedPending(pod *corev1.Pod) string {
	if !waits(pod) {
		return ""
	}
	strategy := p.strategy
	if strategy != v1alpha1.Remote && strategy != v1alpha1.Local && podspec.MountsClaims(pod) {
		// The claims of the pod determine where it may run, and a Placement does not contain the
		// claims.
		return ""
	}
	tolerates := toleratesVirtualNodes(pod)
	switch {
	case strategy == v1alpha1.Local && !tolerates:
		// Without the toleration, the pod cannot run on virtual nodes, whatever its affinity is.
		return ""
	case strategy != v1alpha1.Local && !tolerates:
		return "it was created for local nodes only."
	case !confinedTo(pod, p.alternatives(strategy)):
		return "it was created for nodes that the spec no longer allows."
	}
	return ""
}

// MayStillBindToVirtualNode reports whether a pending pod, whose namespace is unoffloaded, could still be bound to a
// virtual node and would be replaced by a controller.
func MayStillBindToVirtualNode(pod *corev1.Pod) bool {
	return waits(pod) && toleratesVirtualNodes(pod) && !confinedTo(pod, Placement{}.alternatives(v1alpha1.Local))
}

// waits reports whether a pod is pending without a node, and a controller would replace it.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !podspec.Finished(pod) && pod.DeletionTimestamp.IsZero() &&
		!podspec.BelongsToItsNode(pod) && metav1.GetControllerOfNoCopy(pod) != nil
}

func virtual(operator corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: v1alpha1.LabelType, Operator: operator, Values: []string{v1alpha1.TypeVirtualNode},
	}
}

// alternatives returns the node selector terms that a strategy permits. The admission policy
// federation-placement combines each term of a new pod with one of them. Nil means that pods may run on
// all nodes.
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

// confinedTo reports whether each required node affinity term of a pod contains all requirements of at
// least one alternative. It is true if there are no alternatives.
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
			// An empty term matches no node.
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
