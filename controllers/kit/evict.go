// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EvictionTimeout bounds one eviction. While a PodDisruptionBudget has not been processed, the API server refuses
// evictions with a Retry-After, for which the client would wait.
const EvictionTimeout = 5 * time.Second

// Evict evicts a pod by its UID, so that a new pod of the same name is not affected. It fails with TooManyRequests if a
// PodDisruptionBudget does not allow the eviction.
func Evict(ctx context.Context, writer client.Client, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, EvictionTimeout)
	defer cancel()
	return writer.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// GraceSeconds returns the time in seconds within which a kubelet ends the containers of a pod that is deleted.
func GraceSeconds(pod *corev1.Pod) int64 {
	grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	return max(grace, ptr.Deref(pod.DeletionGracePeriodSeconds, 0))
}
