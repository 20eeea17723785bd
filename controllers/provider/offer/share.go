// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
)

const mebibyte = 1 << 20

// allocatable returns the sum of the allocatable resources of the schedulable nodes that a selector matches.
func allocatable(nodes []*corev1.Node, selector map[string]string) corev1.ResourceList {
	sum, shared := corev1.ResourceList{}, labels.SelectorFromSet(selector)
	for _, node := range nodes {
		if !schedulable(node) || !shared.Matches(labels.Set(node.Labels)) {
			continue
		}
		quota.Add(sum, node.Status.Allocatable)
	}
	return sum
}

// schedulable reports whether a node is not virtual and takes new pods: it is neither cordoned nor being deleted, and
// has no taint with effect NoSchedule or NoExecute.
func schedulable(node *corev1.Node) bool {
	if node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode || node.Spec.Unschedulable ||
		node.DeletionTimestamp != nil {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	})
}

// percentage returns a share of resources in percent, at most the limits. It omits resources whose share
// is zero.
func percentage(allocatable corev1.ResourceList, percent int, limits corev1.ResourceList) corev1.ResourceList {
	offer := corev1.ResourceList{}
	for name, quantity := range allocatable {
		granted := rounded(name, quantity, percent)
		if limit, ok := limits[name]; ok && limit.Cmp(granted) < 0 {
			granted = limit
		}
		if granted.Sign() > 0 {
			offer[name] = granted
		}
	}
	return offer
}

// rounded returns a share of a quantity in percent, rounded down: CPU to millicores, memory and ephemeral
// storage to mebibytes, and other resources to integers.
func rounded(name corev1.ResourceName, quantity resource.Quantity, percent int) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(percentOf(quantity.MilliValue(), percent), resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(percentOf(quantity.Value(), percent)/mebibyte*mebibyte, resource.BinarySI)
	}
	return *resource.NewQuantity(percentOf(quantity.Value(), percent), quantity.Format)
}

// percentOf returns a percentage of value without integer overflow.
func percentOf(value int64, percent int) int64 {
	return value/100*int64(percent) + value%100*int64(percent)/100
}

// resourcesDiffer reports whether the resources in an offer should be replaced by the possible ones:
// if they exceed a limit, if the names of the resources differ, or if a quantity differs by at least
// percent.
func resourcesDiffer(offered, possible, limits corev1.ResourceList, percent int) bool {
	if len(offered) != len(possible) {
		return true
	}
	for name, now := range possible {
		before, ok := offered[name]
		if !ok {
			return true
		}
		if limit, ok := limits[name]; ok && before.Cmp(limit) > 0 {
			return true
		}
		was, is := before.AsApproximateFloat64(), now.AsApproximateFloat64()
		if math.Abs(is-was)*100 >= was*float64(percent) && is != was {
			return true
		}
	}
	return false
}

// share returns the resources that can be offered and, for shape PerNode, the offered nodes. If no shared node is
// schedulable, it returns the previous offer with resources of zero, so that its pods continue to run.
func share(
	nodes []*corev1.Node, terms terms, consumerID string, before v1alpha1.ResourceOfferSpec,
) (corev1.ResourceList, []v1alpha1.OfferedNode) {
	if terms.perNode {
		if offered := offerNodes(nodes, terms, consumerID, before.Nodes); len(offered) > 0 {
			return total(offered), offered
		}
		return nothingOf(before.Resources), nil
	}
	if resources := percentage(allocatable(nodes, terms.nodeSelector), terms.percent, terms.most); len(resources) > 0 {
		return resources, nil
	}
	return nothingOf(before.Resources), nil
}
