// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/podquota"
)

// attributed writes into the status of a new shadow pod the consumer that it counts against:
// labels of namespaces can change, and a reservation must be released where it was made. When
// a shadow pod shrinks it writes the previous usage, which remains until the pod is resized.
//
// It drops managed fields unless the shadow pod was created by server-side apply: they are as
// long as the shadow pod itself and cost storage, watch traffic and CPU, while the fields have
// one writer, the virtual kubelet.
type attributed struct {
	Strategy
	quotas *podquota.Quotas
}

// PrepareForCreate completes a new shadow pod.
func (s attributed) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	pod := obj.(*federation.ShadowPod)
	if !slices.ContainsFunc(pod.ManagedFields, applied) {
		pod.ManagedFields = nil
	}
	s.Strategy.PrepareForCreate(ctx, pod)
	if consumer, ok := reservation.Consumer(ctx); ok {
		pod.Status.ForeignCluster = consumer
	}
}

// PrepareForUpdate completes a new version of a shadow pod.
func (s attributed) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.Strategy.PrepareForUpdate(ctx, obj, old)
	pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
	if pod.Generation == before.Generation {
		return
	}
	used := podquota.Uses(before)
	pod.Status.AllocatedResources = nil
	for name := range quota.More(quota.Requests(&pod.Spec.Pod), used) {
		if pod.Status.AllocatedResources == nil {
			pod.Status.AllocatedResources = corev1.ResourceList{}
		}
		pod.Status.AllocatedResources[name] = used[name]
	}
}

// applied reports whether fields are owned by server-side apply.
func applied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}
