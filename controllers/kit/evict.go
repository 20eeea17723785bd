// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EvictionTimeout bounds one eviction. If a PodDisruptionBudget was not processed yet, the API server
// refuses it with a time to wait, for which the client waits.
const EvictionTimeout = 5 * time.Second

// Evict evicts a pod by its UID: a new pod of the same name is left alone. A
// PodDisruptionBudget that does not allow the eviction is an error for which
// apierrors.IsTooManyRequests is true.
func Evict(ctx context.Context, writer client.Client, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, EvictionTimeout)
	defer cancel()
	return writer.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}
