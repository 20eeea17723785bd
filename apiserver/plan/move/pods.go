// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
)

// mounting returns the pods that mount the claim and would be evicted, sorted by name.
func (r Request) mounting() []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range r.Pods {
		if podspec.Finished(pod) || pod.DeletionTimestamp != nil || pod.Labels[volume.LabelMove] != "" {
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

// mountedBy returns an error for each pod that mounts the claim and either has no controller, which would recreate it,
// or could not run on any node of the target, or not on each node to which the target volume could be bound. It ignores
// requirements that the admission of the federation added to the pod.
func (r Request) mountedBy(target end) field.ErrorList {
	var errs field.ErrorList
	for _, pod := range r.mounting() {
		if metav1.GetControllerOfNoCopy(pod) == nil {
			errs = append(errs, r.refuse("pod %s mounts the claim and has no controller that recreates it after its "+
				"eviction; delete it first", pod.Name)...)
			continue
		}
		accepted, excluded := "", ""
		for _, node := range target.nodes {
			switch {
			case r.accepts(pod, node):
				accepted = node.Name
			case r.bindsTo(target, node):
				excluded = node.Name
			}
		}
		switch {
		case accepted == "":
			errs = append(errs, invalid(r.targetPath(), r.targetValue(), "pod %s mounts the claim, and its nodeSelector, "+
				"required node affinity or tolerations match no node of the target; change them first", pod.Name))
		case excluded != "":
			errs = append(errs, field.Required(targetPath.Child("nodeName"), fmt.Sprintf("pod %s mounts the claim, and its "+
				"nodeSelector, required node affinity or tolerations exclude node %s, to which the target volume could be "+
				"bound; name a node that they permit, for example %s", pod.Name, excluded, accepted)))
		}
	}
	return errs
}

// bindsTo reports whether the volume of a target with several nodes could be bound to this one. A local volume can, if
// its class waits for the first pod, which is the receiver: it runs on any node whose taints permit pods without
// tolerations. A volume of a provider can if each virtual node represents a node of the provider.
func (r Request) bindsTo(target end, node *corev1.Node) bool {
	if target.provider != nil {
		return slices.ContainsFunc(r.usable(target.provider), func(virtualNode *v1alpha1.VirtualNode) bool {
			return virtualNode.Spec.OfferedNode != "" && virtualNode.Spec.NodeName == node.Name
		})
	}
	class := r.findClass(target.class)
	return class != nil && ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) ==
		storagev1.VolumeBindingWaitForFirstConsumer && r.accepts(&corev1.Pod{}, node)
}

// accepts reports whether selects returns true for a pod and a node, and the pod tolerates the taints of the node for
// which lasting returns true.
func (r Request) accepts(pod *corev1.Pod, node *corev1.Node) bool {
	_, repelled := scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		lasting, false)
	return !repelled && r.selects(pod, node)
}

// lasting reports whether a taint of a node permanently excludes pods without a toleration. Taints of
// Kubernetes for the state of the node are temporary, and admission adds the toleration of virtual
// nodes to pods.
func lasting(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && taint.Key != v1alpha1.TaintVirtualNode &&
		!strings.HasPrefix(taint.Key, "node.kubernetes.io/")
}

// selects reports whether a pod's nodeSelector and required node affinity match a node, without the
// requirements that the admission of the federation added.
func (r Request) selects(pod *corev1.Pod, node *corev1.Node) bool {
	own := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity.DeepCopy()}}
	if own.Spec.Affinity != nil && own.Spec.Affinity.NodeAffinity != nil {
		if required := own.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				term := &required.NodeSelectorTerms[i]
				term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, r.added)
				if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
					// Without the added requirements, this term matches every node.
					own.Spec.Affinity = nil
					break
				}
			}
		}
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(own).Match(node)
	return err == nil && matches
}

// added reports whether the admission of the federation added a requirement to a pod, because of
// podOffloadingStrategy or clusterSelector of the namespace.
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

// apartFrom returns the name of a running pod that the required podAntiAffinity of pod selects, if the
// affinity thus excludes every node of the target. Otherwise it returns an empty string. Pods of other
// namespaces are ignored.
func (r Request) apartFrom(pod *corev1.Pod, target end) string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return ""
	}
	evicted, blocking := r.mounting(), ""
	terms := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for _, node := range target.nodes {
		i := slices.IndexFunc(r.Pods, func(other *corev1.Pod) bool {
			return !slices.Contains(evicted, other) && !podspec.Finished(other) &&
				slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
					return r.repels(term, other, node)
				})
		})
		if i < 0 {
			return ""
		}
		blocking = r.Pods[i].Name
	}
	return blocking
}

// repels reports whether a required term of the podAntiAffinity of a pod excludes a node because of the pod other:
// the term selects other by its labels, and other runs in the same topology domain as the node.
func (r Request) repels(term corev1.PodAffinityTerm, other *corev1.Pod, node *corev1.Node) bool {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(other.Labels)) {
		return false
	}
	domain, ok := node.Labels[term.TopologyKey]
	at := named(r.Nodes, other.Spec.NodeName)
	return ok && len(at) > 0 && at[0].Labels[term.TopologyKey] == domain
}

// budgetsOf returns the PodDisruptionBudgets that select a pod, sorted by name.
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
