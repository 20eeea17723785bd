// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// RefuseContainers sets the state of ephemeral containers that the provider refused to Waiting, with the message.
// Ephemeral containers cannot be removed from a pod, so these wait until the pod ends. They are not sent to the
// provider again.
func RefuseContainers(status *corev1.PodStatus, refused []corev1.EphemeralContainer, message string) {
	for i := range refused {
		reported := corev1.ContainerStatus{
			Name:    refused[i].Name,
			Image:   refused[i].Image,
			Started: new(bool),
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: v1alpha1.ReasonProviderRefused, Message: text(message)},
			},
		}
		if before := find(status.EphemeralContainerStatuses, reported.Name); before != nil {
			*before = reported
			continue
		}
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, reported)
	}
}

func isRefused(status *corev1.ContainerStatus) bool {
	return status != nil && status.State.Waiting != nil && status.State.Waiting.Reason == v1alpha1.ReasonProviderRefused
}

// ephemeral converts ephemeral containers to containers that never restart.
func ephemeral(containers []corev1.EphemeralContainer) []corev1.Container {
	result := make([]corev1.Container, len(containers))
	for i := range containers {
		result[i] = corev1.Container(containers[i].EphemeralContainerCommon)
	}
	return result
}
