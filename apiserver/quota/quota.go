// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota holds the arithmetic of what is lent: what a pod takes, what
// is left of a grant, and what is short. It is exact at any size.
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

// Granted sums the offers that a consumer has accepted and that stand.
func Granted(offers []*v1alpha1.ResourceOffer) corev1.ResourceList {
	granted := corev1.ResourceList{}
	for _, offer := range offers {
		if stands(offer) {
			Add(granted, offer.Spec.Resources)
		}
	}
	return granted
}

// stands reports whether an offer is accepted and neither withdrawn nor deleted.
func stands(offer *v1alpha1.ResourceOffer) bool {
	return offer.Status.Phase == v1alpha1.NegotiationAccepted && !offer.Spec.Withdrawn && offer.DeletionTimestamp.IsZero()
}

// Requests is what a pod takes from a grant: one pod, and what the scheduler
// will reserve for it, with init containers, sidecars, pod-level resources and
// overhead. As in Kubernetes a limit without a request counts as the request.
// What a pod does not ask for, it does not take.
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

// Takes is what a shadow pod takes from a grant: what its pod asks for or, while
// it has not given back what it was allocated before, the larger of both.
func Takes(spec *corev1.PodSpec, allocated corev1.ResourceList) corev1.ResourceList {
	takes := Requests(spec)
	Add(takes, More(takes, allocated))
	return takes
}

// Used sums what the shadow pods of a consumer take that are not finished.
func Used(shadows []*v1alpha1.ShadowPod, foreignCluster string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, shadow := range shadows {
		if shadow.Status.ForeignCluster == foreignCluster && shadow.Status.Phase == "" {
			Add(used, Takes(&shadow.Spec.Pod, shadow.Status.AllocatedResources))
		}
	}
	return used
}

// More is by how much what is wanted goes beyond what there is, of each resource
// of which it does.
func More(there, wanted corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, quantity := range wanted {
		missing := quantity.DeepCopy()
		missing.Sub(there[name])
		if missing.Sign() > 0 {
			more[name] = missing
		}
	}
	return more
}

// withRequests gives containers the requests that follow from their limits.
func withRequests(containers []corev1.Container) []corev1.Container {
	completed := slices.Clone(containers)
	for i := range completed {
		wanted := &completed[i].Resources
		requests := maps.Clone(wanted.Limits)
		if requests == nil {
			continue
		}
		maps.Copy(requests, wanted.Requests)
		wanted.Requests = requests
	}
	return completed
}

// Add adds what is in more to sum, which it changes.
func Add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// Subtract takes what is in less from sum, which it changes. What comes to
// nothing is left out.
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

// Shortage is a resource of which less is left than is asked for.
type Shortage struct {
	Resource corev1.ResourceName
	// Granted, Used and Asked are how much of it is granted in all, how much of
	// that is taken, and how much more is wanted.
	Granted, Used, Asked resource.Quantity
}

// Left is how much there still is; nothing, when more is taken than granted.
func (s Shortage) Left() resource.Quantity {
	left := s.Granted.DeepCopy()
	left.Sub(s.Used)
	if left.Sign() < 0 {
		return resource.Quantity{Format: s.Granted.Format}
	}
	return left
}

// String says it in words.
func (s Shortage) String() string {
	left := s.Left()
	return fmt.Sprintf("%s: %s asked for, %s of %s granted used, %s left", s.Resource, s.Asked.String(), s.Used.String(), s.Granted.String(), left.String())
}

// Short tells which resources a grant lacks for what is asked for beside what
// is used, by name. A resource that is not granted is not there at all.
// Resources that are not asked for do not matter, so that a grant that was
// lowered below what is used hinders nobody who takes nothing of it.
func Short(granted, used, asked corev1.ResourceList) []Shortage {
	var short []Shortage
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		want := asked[name]
		if want.Sign() <= 0 {
			continue
		}
		total := used[name].DeepCopy()
		total.Add(want)
		if limit := granted[name]; total.Cmp(limit) > 0 {
			short = append(short, Shortage{Resource: name, Granted: limit, Used: used[name], Asked: want})
		}
	}
	return short
}

// Exceeded tells of which resources more is used than granted, by name.
func Exceeded(granted, used corev1.ResourceList) []Shortage {
	var over []Shortage
	for _, name := range slices.Sorted(maps.Keys(used)) {
		taken := used[name]
		if limit := granted[name]; taken.Sign() > 0 && taken.Cmp(limit) > 0 {
			over = append(over, Shortage{Resource: name, Granted: limit, Used: taken})
		}
	}
	return over
}

// Sentence joins shortages to one.
func Sentence(short []Shortage) string {
	words := make([]string, len(short))
	for i, s := range short {
		words[i] = s.String()
	}
	return strings.Join(words, "; ")
}
