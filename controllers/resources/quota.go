// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

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

// Allocatable sums what the nodes of this cluster can run that have the labels
// of a selector and take work: real ones, without a taint or a cordon that
// keeps pods off.
func Allocatable(nodes []*corev1.Node, selector map[string]string) corev1.ResourceList {
	sum, shared := corev1.ResourceList{}, labels.SelectorFromSet(selector)
	for _, node := range nodes {
		if !takesWork(node) || !shared.Matches(labels.Set(node.Labels)) {
			continue
		}
		quota.Add(sum, node.Status.Allocatable)
	}
	return sum
}

func takesWork(node *corev1.Node) bool {
	if node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode || node.Spec.Unschedulable || node.DeletionTimestamp != nil {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	})
}

// Offer is a share of what is there, in percent, and never more of anything
// than the most that is named. What comes to nothing is left out.
func Offer(allocatable corev1.ResourceList, percent int, most corev1.ResourceList) corev1.ResourceList {
	offer := corev1.ResourceList{}
	for name, quantity := range allocatable {
		granted := share(name, quantity, percent)
		if limit, ok := most[name]; ok && limit.Cmp(granted) < 0 {
			granted = limit
		}
		if granted.Sign() > 0 {
			offer[name] = granted
		}
	}
	return offer
}

// share rounds down: to milli CPUs, to mebibytes, and to whole pieces.
func share(name corev1.ResourceName, quantity resource.Quantity, percent int) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(percentOf(quantity.MilliValue(), percent), resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(percentOf(quantity.Value(), percent)/mebibyte*mebibyte, resource.BinarySI)
	}
	return *resource.NewQuantity(percentOf(quantity.Value(), percent), quantity.Format)
}

// percentOf does not overflow, whatever the value.
func percentOf(value int64, percent int) int64 {
	return value/100*int64(percent) + value%100*int64(percent)/100
}

// Moved tells whether an offer should be replaced by another one: when it
// grants more than the most that is named, when it speaks of other resources,
// or when one of them differs by so many percent. Nodes come and go a little all
// the time; offers should not.
func Moved(offered, could, most corev1.ResourceList, percent int) bool {
	if len(offered) != len(could) {
		return true
	}
	for name, now := range could {
		before, ok := offered[name]
		if !ok {
			return true
		}
		if limit, ok := most[name]; ok && before.Cmp(limit) > 0 {
			return true
		}
		was, is := before.AsApproximateFloat64(), now.AsApproximateFloat64()
		if math.Abs(is-was)*100 >= was*float64(percent) && is != was {
			return true
		}
	}
	return false
}
