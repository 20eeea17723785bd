// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Resizable are the resources whose requests and limits Kubernetes can change in a running container.
var Resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Resize sets CPU and memory of containers to the values of the requested containers with the same names, and reports
// whether a value changed. Values that requested does not contain are not changed, because Kubernetes does not permit
// their removal. It replaces resource lists instead of modifying them, so that callers can pass shallow copies.
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

// resize returns a copy of amounts with the requested CPU and memory, or nil if nothing changes.
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
