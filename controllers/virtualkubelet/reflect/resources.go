// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// amounts are what a provider says that a pod, or a container, has of each
// resource, as far as it may be believed: the home cluster counts it against
// quotas, and each name takes room. The pod has to ask for the resource, and
// there is no more of it than that, or than it had before: what becomes smaller
// is still larger for a while.
func amounts(said, asked, before corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, most := range asked {
		amount, ok := said[name]
		if !ok || amount.Sign() < 0 {
			continue
		}
		if had := before[name]; had.Cmp(most) > 0 {
			most = had
		}
		if amount.Cmp(most) > 0 {
			amount = most
		}
		if kept == nil {
			kept = corev1.ResourceList{}
		}
		kept[name] = amount.DeepCopy()
	}
	return kept
}

// requirements are the same of requests and limits. Claims are the provider's.
func requirements(said *corev1.ResourceRequirements, asked corev1.ResourceRequirements, before *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if said == nil {
		return nil
	}
	if before == nil {
		before = &corev1.ResourceRequirements{}
	}
	return &corev1.ResourceRequirements{
		Requests: amounts(said.Requests, asked.Requests, before.Requests),
		Limits:   amounts(said.Limits, asked.Limits, before.Limits),
	}
}

// podAmounts takes over what a pod has as a whole.
func podAmounts(status *corev1.PodStatus, local *corev1.Pod, said *corev1.PodStatus) {
	if said.Resources == nil && said.AllocatedResources == nil {
		status.Resources, status.AllocatedResources = nil, nil
		return
	}
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	asked := corev1.ResourceRequirements{Requests: resourcehelper.PodRequests(local, options), Limits: resourcehelper.PodLimits(local, options)}
	status.Resources = requirements(said.Resources, asked, status.Resources)
	status.AllocatedResources = amounts(said.AllocatedResources, asked.Requests, status.AllocatedResources)
}
