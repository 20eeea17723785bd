// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Resizable are the resources that can be resized in a running container.
var Resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Resize sets CPU and memory of containers to the values of the requested containers of the same name,
// and reports whether they changed. It keeps amounts that are not requested: they cannot be removed, and
// another client may have set them. It replaces resource lists, and does not modify them.
func Resize(containers, requested []corev1.Container) bool {
	changed := false
	for i := range containers {
		j := slices.IndexFunc(requested, func(w corev1.Container) bool { return w.Name == containers[i].Name })
		if j < 0 {
			continue
		}
		current, target := &containers[i].Resources, &requested[j].Resources
		requests, limits := resize(current.Requests, target.Requests), resize(current.Limits, target.Limits)
		if requests != nil {
			current.Requests, changed = requests, true
		}
		if limits != nil {
			current.Limits, changed = limits, true
		}
	}
	return changed
}

// resize returns a list of amounts with the requested ones; nil if nothing changes.
func resize(amounts, requested corev1.ResourceList) corev1.ResourceList {
	var resized corev1.ResourceList
	for _, name := range Resizable {
		amount, named := requested[name]
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
