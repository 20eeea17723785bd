// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPod requests a remote pod for a pod of a consumer, and has the final status of the remote
// pod.
type ShadowPod struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ShadowPodSpec
	Status ShadowPodStatus
}

// ShadowPodSpec is the desired remote pod.
type ShadowPodSpec struct {
	Pod         corev1.PodSpec
	OfferedNode string
}

// ConditionPodCreated is False while the provider refuses to create the remote pod, and True
// afterwards. It does not exist before the first refusal.
const ConditionPodCreated = "PodCreated"

// ConditionPodResized is False while the provider refuses to resize the remote pod to the resources
// in the spec, and True afterwards. It does not exist before the first refusal.
const ConditionPodResized = "PodResized"

// ConditionPodPermitted is False while the running remote pod exceeds the limits for pods of the
// consumer, and True afterwards. It does not exist before the first time that the pod exceeds them.
const ConditionPodPermitted = "PodPermitted"

// ShadowPodStatus is the observed state of a shadow pod.
type ShadowPodStatus struct {
	Phase              corev1.PodPhase
	Pod                *corev1.PodStatus
	ForeignCluster     string
	AllocatedResources corev1.ResourceList
	Conditions         []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPodList is a list of ShadowPods.
type ShadowPodList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ShadowPod
}
