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
	"liqo.io/federation/registry/federation/resource"
)

// attributed extends Strategy by quota usage. It writes the consumer into the status of a new shadow pod, because the
// labels of the namespace can change, but the pod must use quota in the same ledger until it is deleted. When the
// request of a shadow pod is reduced, it writes the previous usage into status.allocatedResources, which counts until
// the pod is resized.
//
// It drops the managed fields of all shadow pods that use quota, and of other new ones unless server-side apply created
// them. Managed fields would be as large as the shadow pod itself and cost storage, watch traffic and CPU, although all
// fields have one writer, the virtual kubelet. By server-side apply, a peer could store any number of entries in the
// managed fields, each for another manager.
type attributed struct {
	Strategy
	quotas   *podquota.Quotas
	limitsOf LimitsOf
}

// PrepareForCreate drops managed fields and sets the consumer of a new shadow pod.
func (s attributed) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	pod := obj.(*federation.ShadowPod)
	consumer, remote := reservation.Consumer(ctx)
	if remote || !slices.ContainsFunc(pod.ManagedFields, applied) {
		pod.ManagedFields = nil
	}
	s.Strategy.PrepareForCreate(ctx, pod)
	if remote {
		pod.Status.ForeignCluster = consumer
	}
}

// PrepareForUpdate drops managed fields, and sets status.allocatedResources if the spec changes: that field contains
// the current usage of each resource whose request is now less than its usage.
func (s attributed) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.Strategy.PrepareForUpdate(ctx, obj, old)
	pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
	dropManagers(pod, before)
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

// dropManagers drops the managed fields of an updated shadow pod that uses quota.
func dropManagers(pod, before *federation.ShadowPod) {
	if before.Status.ForeignCluster != "" {
		pod.ManagedFields = nil
	}
}

// attributedStatus is the strategy of the status of ShadowPods. It drops managed fields for the same reasons as
// attributed.
type attributedStatus struct {
	resource.StatusStrategy[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]
}

// PrepareForUpdate discards the requested changes of all fields except the status, and drops managed fields.
func (s attributedStatus) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.StatusStrategy.PrepareForUpdate(ctx, obj, old)
	dropManagers(obj.(*federation.ShadowPod), old.(*federation.ShadowPod))
}

// applied reports whether managed fields come from server-side apply.
func applied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}
