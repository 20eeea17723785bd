// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// boundedAmounts returns the resources that a provider reports for a pod or a container, without resources that the pod
// does not request. An amount is at most the requested one or the one in before, the previous status, whichever is
// larger: a resize to a smaller amount takes effect later. The consumer counts the result against its own quotas, which
// a provider must not exhaust.
func boundedAmounts(reported, requested, before corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, limit := range requested {
		amount, ok := reported[name]
		if !ok || amount.Sign() < 0 {
			continue
		}
		if previous := before[name]; previous.Cmp(limit) > 0 {
			limit = previous
		}
		if amount.Cmp(limit) > 0 {
			amount = limit
		}
		if kept == nil {
			kept = corev1.ResourceList{}
		}
		kept[name] = amount.DeepCopy()
	}
	return kept
}

// boundedRequirements returns the requests and limits that a provider reports, bounded by boundedAmounts. It drops
// resource claims, which name objects of the provider.
func boundedRequirements(
	reported *corev1.ResourceRequirements,
	requested corev1.ResourceRequirements,
	before *corev1.ResourceRequirements,
) *corev1.ResourceRequirements {
	if reported == nil {
		return nil
	}
	if before == nil {
		before = &corev1.ResourceRequirements{}
	}
	return &corev1.ResourceRequirements{
		Requests: boundedAmounts(reported.Requests, requested.Requests, before.Requests),
		Limits:   boundedAmounts(reported.Limits, requested.Limits, before.Limits),
	}
}

// boundedPodAmounts sets the resources of the pod as a whole in a status to the reported ones, bounded by
// boundedAmounts.
func boundedPodAmounts(status *corev1.PodStatus, local *corev1.Pod, reported *corev1.PodStatus) {
	if reported.Resources == nil && reported.AllocatedResources == nil {
		status.Resources, status.AllocatedResources = nil, nil
		return
	}
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requested := corev1.ResourceRequirements{
		Requests: resourcehelper.PodRequests(local, options),
		Limits:   resourcehelper.PodLimits(local, options),
	}
	status.Resources = boundedRequirements(reported.Resources, requested, status.Resources)
	status.AllocatedResources = boundedAmounts(
		reported.AllocatedResources, requested.Requests, status.AllocatedResources)
}
