// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// RefuseContainers tells in a status that the provider refuses ephemeral
// containers, and why. One cannot be taken out of a pod any more: it waits for
// ever and is not sent again, and another one may be tried.
func RefuseContainers(status *corev1.PodStatus, refused []corev1.EphemeralContainer, message string) {
	for i := range refused {
		said := corev1.ContainerStatus{
			Name: refused[i].Name, Image: refused[i].Image, Started: new(bool),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: v1alpha1.ReasonProviderRefused, Message: text(message)}},
		}
		if before := find(status.EphemeralContainerStatuses, said.Name); before != nil {
			*before = said
			continue
		}
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, said)
	}
}

func isRefused(status *corev1.ContainerStatus) bool {
	return status != nil && status.State.Waiting != nil && status.State.Waiting.Reason == v1alpha1.ReasonProviderRefused
}

// ephemeral are ephemeral containers as containers that never restart.
func ephemeral(containers []corev1.EphemeralContainer) []corev1.Container {
	result := make([]corev1.Container, len(containers))
	for i := range containers {
		result[i] = corev1.Container(containers[i].EphemeralContainerCommon)
	}
	return result
}
