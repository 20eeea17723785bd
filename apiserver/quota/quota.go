// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota computes the quota of a consumer, the quota usage of its pods and claims, and the
// resources that are exhausted. Amounts have arbitrary precision and do not overflow.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Granted returns the quota of a consumer: the sum of its valid offers. An offer is valid if the
// consumer accepted it and it is neither withdrawn nor being deleted.
func Granted(offers []*v1alpha1.ResourceOffer) corev1.ResourceList {
	granted := corev1.ResourceList{}
	for _, offer := range offers {
		if valid(offer) {
			Add(granted, offer.Spec.Resources)
		}
	}
	return granted
}

// valid reports whether an offer is accepted and neither withdrawn nor being deleted.
func valid(offer *v1alpha1.ResourceOffer) bool {
	return offer.Status.Phase == v1alpha1.NegotiationAccepted && !offer.Spec.Withdrawn && offer.DeletionTimestamp.IsZero()
}

// Requests returns the quota usage of a pod: 1 of the resource pods, and the requests that the
// scheduler reserves for the pod, including init containers, sidecars, pod-level resources and
// overhead. As in Kubernetes, a limit without a request counts as a request. The result contains only
// amounts above 0.
func Requests(spec *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *spec}
	pod.Spec.InitContainers = withRequests(spec.InitContainers)
	pod.Spec.Containers = withRequests(spec.Containers)
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if spec.Resources != nil {
		for name, limit := range spec.Resources.Limits {
			if _, ok := requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
				requests[name] = limit.DeepCopy()
			}
		}
	}
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, quantity resource.Quantity) bool { return quantity.Sign() <= 0 })
	return requests
}

// Takes returns the quota usage of a shadow pod: for each resource the larger of the request and the
// amount in allocated, its status.allocatedResources.
func Takes(spec *corev1.PodSpec, allocated corev1.ResourceList) corev1.ResourceList {
	takes := Requests(spec)
	Add(takes, More(takes, allocated))
	return takes
}

// Used returns the quota usage of all unfinished shadow pods of the consumer with this ForeignCluster.
func Used(shadows []*v1alpha1.ShadowPod, foreignCluster string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, shadow := range shadows {
		if shadow.Status.ForeignCluster == foreignCluster && shadow.Status.Phase == "" {
			Add(used, Takes(&shadow.Spec.Pod, shadow.Status.AllocatedResources))
		}
	}
	return used
}

// More returns the amounts by which requested exceeds current. It contains only resources whose
// requested amount is larger.
func More(current, requested corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, quantity := range requested {
		missing := quantity.DeepCopy()
		missing.Sub(current[name])
		if missing.Sign() > 0 {
			more[name] = missing
		}
	}
	return more
}

// withRequests returns a copy of containers in which each limit without a request is also the request.
func withRequests(containers []corev1.Container) []corev1.Container {
	completed := slices.Clone(containers)
	for i := range completed {
		resources := &completed[i].Resources
		requests := maps.Clone(resources.Limits)
		if requests == nil {
			continue
		}
		maps.Copy(requests, resources.Requests)
		resources.Requests = requests
	}
	return completed
}

// Add adds more to sum, in place.
func Add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// Subtract subtracts less from sum, in place. It removes resources whose amount becomes 0.
func Subtract(sum, less corev1.ResourceList) {
	for name, quantity := range less {
		total := sum[name].DeepCopy()
		total.Sub(quantity)
		if total.Sign() == 0 {
			delete(sum, name)
			continue
		}
		sum[name] = total
	}
}

// Shortage is a resource whose available quota is smaller than the requested amount.
type Shortage struct {
	Resource corev1.ResourceName
	// Granted is the quota, Used the quota usage without the request, and Requested the requested
	// amount.
	Granted, Used, Requested resource.Quantity
}

// Left returns the amount of quota that is available, or 0 if the usage exceeds the quota.
func (s Shortage) Left() resource.Quantity {
	left := s.Granted.DeepCopy()
	left.Sub(s.Used)
	if left.Sign() < 0 {
		return resource.Quantity{Format: s.Granted.Format}
	}
	return left
}

// String returns the resource and its amounts for messages to users.
func (s Shortage) String() string {
	left := s.Left()
	return fmt.Sprintf("%s: %s requested, %s of %s granted used, %s left", s.Resource, s.Requested.String(),
		s.Used.String(), s.Granted.String(), left.String())
}

// Short returns the resources whose available quota is smaller than the requested amount, sorted by
// name. A resource that is not in granted has no quota. Resources that are not requested are ignored,
// even if their usage exceeds the quota.
func Short(granted, used, requested corev1.ResourceList) []Shortage {
	var short []Shortage
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		amount := requested[name]
		if amount.Sign() <= 0 {
			continue
		}
		total := used[name].DeepCopy()
		total.Add(amount)
		if limit := granted[name]; total.Cmp(limit) > 0 {
			short = append(short, Shortage{Resource: name, Granted: limit, Used: used[name], Requested: amount})
		}
	}
	return short
}

// Exceeded returns the resources whose usage exceeds the quota, sorted by name.
func Exceeded(granted, used corev1.ResourceList) []Shortage {
	var over []Shortage
	for _, name := range slices.Sorted(maps.Keys(used)) {
		amount := used[name]
		if limit := granted[name]; amount.Sign() > 0 && amount.Cmp(limit) > 0 {
			over = append(over, Shortage{Resource: name, Granted: limit, Used: amount})
		}
	}
	return over
}

// Sentence returns the texts of shortages, joined by semicolons.
func Sentence(short []Shortage) string {
	words := make([]string, len(short))
	for i, s := range short {
		words[i] = s.String()
	}
	return strings.Join(words, "; ")
}
