// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/shadowpod"
)

// attributed says in the status of a new shadow pod whose it is: labels of
// namespaces can change, and what was reserved must be given back where it was
// taken.
//
// Who wrote which of its fields is not kept before somebody applies one: that
// is as long as the shadow pod itself, would be stored, sent to each watcher and
// computed with each change, and the fields have one writer, the virtual kubelet.
type attributed struct {
	shadowpod.Strategy
}

// PrepareForCreate completes a new shadow pod.
func (s attributed) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	pod := obj.(*federation.ShadowPod)
	if !slices.ContainsFunc(pod.ManagedFields, applied) {
		pod.ManagedFields = nil
	}
	s.Strategy.PrepareForCreate(ctx, pod)
	if consumer, ok := ctx.Value(consumerKey{}).(string); ok {
		pod.Status.ForeignCluster = consumer
	}
}

// applied tells whether fields are owned by who applies them.
func applied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}
