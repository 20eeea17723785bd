// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Resizable are the resources of which a container that runs can be given more or
// less.
var Resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Resize gives containers the CPU and memory of those that are wanted of the same
// name, and tells whether they had others. What is not named there stays: nothing
// can be taken away, and somebody else may have given it. What a container had is
// not written to.
func Resize(containers, wanted []corev1.Container) bool {
	changed := false
	for i := range containers {
		j := slices.IndexFunc(wanted, func(w corev1.Container) bool { return w.Name == containers[i].Name })
		if j < 0 {
			continue
		}
		had, wants := &containers[i].Resources, &wanted[j].Resources
		requests, limits := resize(had.Requests, wants.Requests), resize(had.Limits, wants.Limits)
		if requests != nil {
			had.Requests, changed = requests, true
		}
		if limits != nil {
			had.Limits, changed = limits, true
		}
	}
	return changed
}

// resize is a list of amounts with those that are wanted; nil if it has them.
func resize(amounts, wanted corev1.ResourceList) corev1.ResourceList {
	var resized corev1.ResourceList
	for _, name := range Resizable {
		amount, named := wanted[name]
		had, has := amounts[name]
		if !named || has && had.Cmp(amount) == 0 {
			continue
		}
		if resized == nil {
			resized = amounts.DeepCopy()
		}
		if resized == nil {
			resized = corev1.ResourceList{}
		}
		resized[name] = amount.DeepCopy()
	}
	return resized
}
