// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/test/etcd"
)

func TestShadowPodsOfAConsumerStoreNoManagedFields(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "10"))
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "federation.liqo.io/v1alpha1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
		}
	}
	managed := func(change func(*federation.ShadowPod)) rest.UpdatedObjectInfo {
		return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(*federation.ShadowPod)
			change(changed)
			changed.ManagedFields = append(changed.ManagedFields, entry("another"))
			return changed, nil
		})
	}
	for _, test := range []struct {
		namespace string
		// want is the number of managers after the creation, the update, and the update of the status.
		want [3]int
	}{
		{"web", [3]int{0, 0, 0}},
		{"local", [3]int{1, 2, 3}},
	} {
		t.Run(test.namespace, func(t *testing.T) {
			pod, ctx := shadowPod(test.namespace, "a", nil), in(t.Context(), test.namespace)
			pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("one")}
			var got [3]int
			created, err := s.pods.Create(ctx, pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got[0] = len(created.(*federation.ShadowPod).ManagedFields)
			updated, _, err := s.pods.Update(ctx, "a", managed(func(pod *federation.ShadowPod) {
				pod.Labels = map[string]string{"updated": "true"}
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got[1] = len(updated.(*federation.ShadowPod).ManagedFields)
			updated, _, err = s.status.Update(ctx, "a", managed(func(pod *federation.ShadowPod) {
				pod.Status.Phase = corev1.PodSucceeded
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got[2] = len(updated.(*federation.ShadowPod).ManagedFields)
			if got != test.want {
				t.Errorf("managers %v, want %v", got, test.want)
			}
		})
	}
}
