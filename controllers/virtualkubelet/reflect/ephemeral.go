// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"
)

// ReasonContainerRefused is the reason of an ephemeral container that the
// provider refuses. It cannot be taken out of the pod any more; it waits for
// ever, and another one may be tried.
const ReasonContainerRefused = "ProviderRefused"

// RefuseContainers tells in a status that the provider refuses ephemeral
// containers, and why. They are not sent again.
func RefuseContainers(status *corev1.PodStatus, refused []corev1.EphemeralContainer, message string) {
	for i := range refused {
		said := corev1.ContainerStatus{
			Name: refused[i].Name, Image: refused[i].Image, Started: new(bool),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: ReasonContainerRefused, Message: text(message)}},
		}
		if before := find(status.EphemeralContainerStatuses, said.Name); before != nil {
			*before = said
			continue
		}
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, said)
	}
}

func isRefused(status *corev1.ContainerStatus) bool {
	return status != nil && status.State.Waiting != nil && status.State.Waiting.Reason == ReasonContainerRefused
}

// ephemeral are ephemeral containers as containers that never restart.
func ephemeral(containers []corev1.EphemeralContainer) []corev1.Container {
	result := make([]corev1.Container, len(containers))
	for i := range containers {
		result[i] = corev1.Container(containers[i].EphemeralContainerCommon)
	}
	return result
}
