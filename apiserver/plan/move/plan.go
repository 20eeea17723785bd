// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

// maxEvictions is the maximum length of evictedPods in a plan.
const maxEvictions = 100

func (r Request) plan(source, target end) *v1alpha1.MovePlan {
	plan := &v1alpha1.MovePlan{
		Action:   v1alpha1.PlanChange,
		Source:   source.location(),
		Target:   target.location(),
		Capacity: ptr.To(r.size()),
		Path:     path(source, target),
		Downtime: r.downtime(),
		Warnings: r.warnings(source, target),
		Unknown: []string{
			"how many bytes and files the volume holds; the move counts them when it begins",
			"how much of the data changes while it is copied",
			"whether the storage of the target has room; the move checks it before it copies",
		},
	}
	plan.Source.VolumeName = r.PersistentVolume.Name
	if at := r.Volume.Status.Location; at != nil && source.provider != nil {
		plan.Source.Namespace, plan.Source.ClaimName = at.Namespace, at.ClaimName
	}
	for _, pod := range r.mounting() {
		plan.EvictedPodCount++
		if len(plan.EvictedPods) == maxEvictions {
			continue
		}
		eviction := v1alpha1.PlannedEviction{Name: pod.Name, NodeName: pod.Spec.NodeName}
		if budgets := r.budgetsOf(pod); len(budgets) > 0 {
			eviction.DisruptionBudget = budgets[0].Name
			eviction.DisruptionsAllowed = budgets[0].Status.DisruptionsAllowed
		}
		plan.EvictedPods = append(plan.EvictedPods, eviction)
	}
	return plan
}

// path returns a sentence about the network path of the data, for the field path of a plan.
func path(source, target end) string {
	describe := func(e end) string {
		if e.provider == nil {
			return "this cluster"
		}
		return "cluster " + e.name()
	}
	if source.name() == target.name() {
		return "Within " + describe(source) + "."
	}
	var gateways []string
	for _, one := range []end{source, target} {
		if one.provider != nil && one.provider.Cluster.Spec.Networking != v1alpha1.NetworkingFlat {
			gateways = append(gateways, one.name())
		}
	}
	way := "directly between pods"
	switch len(gateways) {
	case 1:
		way = "through the gateways of this cluster and cluster " + gateways[0]
	case 2:
		way = fmt.Sprintf("through the gateways of cluster %s, this cluster and cluster %s", gateways[0], gateways[1])
	}
	return fmt.Sprintf("From %s to %s, %s.", describe(source), describe(target), way)
}

// downtime returns a sentence with the steps of the downtime, for the field downtime of a plan.
func (r Request) downtime() string {
	var parts []string
	if pods := r.mounting(); len(pods) > 0 {
		var grace int64
		for _, pod := range pods {
			grace = max(grace, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
		}
		parts = append(parts, fmt.Sprintf("the termination of the evicted pods (up to %d s each)", grace))
	}
	copied := "copying what changed during the previous pass"
	if r.Spec.Strategy == v1alpha1.MoveOffline {
		copied = "copying all data" + r.atLimit()
	}
	checked := "comparing what the last pass copied"
	if r.Spec.Verify == v1alpha1.VerifyFull {
		checked = "reading all data at both ends to compare it"
	}
	parts = append(parts, copied, checked, "binding the claim to the new volume", "the start of the pods")
	return "In this order: " + strings.Join(parts, ", ") + "."
}

// atLimit returns how long the copy of a full volume takes at the requested bandwidth, in parentheses.
// It is empty without a bandwidth.
func (r Request) atLimit() string {
	if r.Spec.Bandwidth == nil || r.Spec.Bandwidth.Value() <= 0 {
		return ""
	}
	size := r.size()
	seconds := size.Value() / r.Spec.Bandwidth.Value()
	return fmt.Sprintf(" (%s for a full volume at %s/s)", time.Duration(seconds)*time.Second, r.Spec.Bandwidth)
}

// warnings returns the reasons for which the move can fail or take long.
func (r Request) warnings(source, target end) []string {
	found := []string{"While the volume is locked, Kubernetes reports ClaimMisbound or Lost on the claim; " +
		"both end with the move, and the data is not affected."}
	offers := func(virtualNode *v1alpha1.VirtualNode) bool {
		return placement.OffersPods(r.nodeOf(virtualNode))
	}
	for _, one := range []end{source, target} {
		if one.provider != nil && !slices.ContainsFunc(one.provider.VirtualNodes, ready) {
			found = append(found, fmt.Sprintf("No virtual node of cluster %s is ready; the move waits until one is.",
				one.name()))
		} else if one.provider != nil && !slices.ContainsFunc(one.provider.VirtualNodes, offers) {
			found = append(found, fmt.Sprintf("Cluster %s currently offers no pods, and a move runs a pod at both ends; "+
				"the move waits until the cluster offers pods.", one.name()))
		}
	}
	if len(target.nodes) == 1 && target.nodes[0].Spec.Unschedulable {
		found = append(found, fmt.Sprintf("Node %s is cordoned; the move waits until it accepts pods.", target.nodes[0].Name))
	}
	found = append(found, r.isolation()...)
	found = append(found, r.limits()...)
	pods := r.mounting()
	for _, pod := range pods[:min(len(pods), maxEvictions)] {
		if other := r.apartFrom(pod, target); other != "" {
			found = append(found, fmt.Sprintf("The podAntiAffinity of pod %s excludes the target, because pod %s runs there: "+
				"the pod stays Pending until the other pod runs elsewhere.", pod.Name, other))
		}
		budgets := r.budgetsOf(pod)
		if len(budgets) > 1 {
			found = append(found, fmt.Sprintf("Pod %s has %d PodDisruptionBudgets, and Kubernetes evicts no pod with more "+
				"than one; delete all but one.", pod.Name, len(budgets)))
		}
		if len(budgets) == 1 && budgets[0].Status.DisruptionsAllowed == 0 {
			found = append(found, fmt.Sprintf("PodDisruptionBudget %s allows no disruption at the moment; the move is rolled "+
				"back unless pod %s can be evicted within %d s.", budgets[0].Name, pod.Name,
				ptr.Deref(r.Spec.EvictionTimeoutSeconds, v1alpha1.DefaultEvictionTimeoutSeconds)))
		}
	}
	return found
}

func ready(virtualNode *v1alpha1.VirtualNode) bool {
	return meta.IsStatusConditionTrue(virtualNode.Status.Conditions, v1alpha1.ConditionReady)
}

// isolation returns a warning if NetworkPolicies of the namespace apply to the movers and can block
// their connection.
func (r Request) isolation() []string {
	var names []string
	for _, policy := range r.Policies {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err == nil && selector.Matches(labels.Set{volume.LabelMove: ""}) && !allowsAll(policy) {
			names = append(names, policy.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("NetworkPolicy %s also selects the pods of the move, which have the label %s; permit "+
		"connections between them, also across clusters.", strings.Join(names, ", "), volume.LabelMove)}
}

// limits returns a warning for each ResourceQuota that admits only pods with limits, since movers have
// no limits.
func (r Request) limits() []string {
	var found []string
	for _, quota := range r.Quotas {
		for _, name := range []corev1.ResourceName{corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory} {
			if _, limited := quota.Spec.Hard[name]; limited {
				found = append(found, fmt.Sprintf("ResourceQuota %s requires %s, which the pods of the move do not set; "+
					"the move is rolled back unless a LimitRange of the namespace sets a default.", quota.Name, name))
			}
		}
	}
	return found
}

// allowsAll reports whether a policy permits all connections, because it has an empty rule for each of
// its policyTypes.
func allowsAll(policy *networkingv1.NetworkPolicy) bool {
	types := policy.Spec.PolicyTypes
	if len(types) == 0 {
		types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(policy.Spec.Egress) > 0 {
			types = append(types, networkingv1.PolicyTypeEgress)
		}
	}
	for _, direction := range types {
		open := slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return len(rule.From)+len(rule.Ports) == 0
		})
		if direction == networkingv1.PolicyTypeEgress {
			open = slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
				return len(rule.To)+len(rule.Ports) == 0
			})
		}
		if !open {
			return false
		}
	}
	return true
}
