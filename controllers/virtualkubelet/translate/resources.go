// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// boundedAmounts bounds the amounts of resources that a provider reports for a pod or a container:
// this cluster counts them against quotas, and each name takes memory. A resource that was not
// requested is dropped, and an amount is at most the requested one or the one before: a decrease
// takes effect later.
func boundedAmounts(reported, asked, before corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, most := range asked {
		amount, ok := reported[name]
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

// boundedRequirements bounds requests and limits. Claims are the provider's.
func boundedRequirements(
	reported *corev1.ResourceRequirements,
	asked corev1.ResourceRequirements,
	before *corev1.ResourceRequirements,
) *corev1.ResourceRequirements {
	if reported == nil {
		return nil
	}
	if before == nil {
		before = &corev1.ResourceRequirements{}
	}
	return &corev1.ResourceRequirements{
		Requests: boundedAmounts(reported.Requests, asked.Requests, before.Requests),
		Limits:   boundedAmounts(reported.Limits, asked.Limits, before.Limits),
	}
}

// boundedPodAmounts sets the reported amounts of the pod as a whole.
func boundedPodAmounts(status *corev1.PodStatus, local *corev1.Pod, reported *corev1.PodStatus) {
	if reported.Resources == nil && reported.AllocatedResources == nil {
		status.Resources, status.AllocatedResources = nil, nil
		return
	}
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	asked := corev1.ResourceRequirements{
		Requests: resourcehelper.PodRequests(local, options),
		Limits:   resourcehelper.PodLimits(local, options),
	}
	status.Resources = boundedRequirements(reported.Resources, asked, status.Resources)
	status.AllocatedResources = boundedAmounts(reported.AllocatedResources, asked.Requests, status.AllocatedResources)
}
