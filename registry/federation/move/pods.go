// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/apiserver/volume"
)

// mounting returns the pods that mount the claim and would be evicted, by name.
func (r Request) mounting() []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range r.Pods {
		if rules.Finished(pod) || pod.DeletionTimestamp != nil || pod.Labels[volume.LabelMove] != "" {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == r.Claim.Name
		}) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// mountedBy refuses to move the data away from pods that nothing would create again, or
// that may not run at the target. The latter is judged by what they require of nodes;
// what the namespace requires in addition is left out.
func (r Request) mountedBy(target end) field.ErrorList {
	var errs field.ErrorList
	for _, pod := range r.mounting() {
		if metav1.GetControllerOfNoCopy(pod) == nil {
			errs = append(errs, r.refuse("pod %s mounts the claim and has no controller that creates it again after its "+
				"eviction; delete it first", pod.Name)...)
			continue
		}
		if !slices.ContainsFunc(target.nodes, func(node *corev1.Node) bool { return r.accepts(pod, node) }) {
			errs = append(errs, invalid(r.targetPath(), r.targetValue(), "pod %s mounts the claim, and its "+
				"nodeSelector or required node affinity matches no node of the target; change them first", pod.Name))
		}
	}
	return errs
}

// accepts reports whether a pod's own requirements match a node.
func (r Request) accepts(pod *corev1.Pod, node *corev1.Node) bool {
	own := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity.DeepCopy()}}
	if own.Spec.Affinity != nil && own.Spec.Affinity.NodeAffinity != nil {
		if required := own.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				term := &required.NodeSelectorTerms[i]
				term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, r.added)
				if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
					// Nothing was required but what the namespace requires.
					own.Spec.Affinity = nil
					break
				}
			}
		}
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(own).Match(node)
	return err == nil && matches
}

// added reports whether a requirement was added to the pod at its admission, for the
// strategy and the selector of its namespace.
func (r Request) added(requirement corev1.NodeSelectorRequirement) bool {
	if requirement.Key == v1alpha1.LabelType {
		return true
	}
	if r.Offloading == nil {
		return false
	}
	return slices.ContainsFunc(r.Offloading.Spec.ClusterSelector.NodeSelectorTerms,
		func(term corev1.NodeSelectorTerm) bool {
			return slices.ContainsFunc(term.MatchExpressions, func(one corev1.NodeSelectorRequirement) bool {
				return apiequality.Semantic.DeepEqual(one, requirement)
			})
		})
}

// budgetsOf returns the PodDisruptionBudgets that cover a pod, by name.
func (r Request) budgetsOf(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, budget := range r.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	slices.SortFunc(found, func(a, b *policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
