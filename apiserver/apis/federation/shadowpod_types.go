// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPod is a pod that the provider keeps alive by itself, also while the
// consumer is away. The pod has its name, and the labels and annotations of
// its metadata.
type ShadowPod struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ShadowPodSpec
	Status ShadowPodStatus
}

// ShadowPodSpec is the pod that is wanted.
type ShadowPodSpec struct {
	Pod         corev1.PodSpec
	OfferedNode string
}

// ConditionPodCreated is False, with a reason and the provider's message,
// while the provider refuses to create the pod of a ShadowPod.
const ConditionPodCreated = "PodCreated"

// ConditionPodResized is False, with a reason and the provider's message, while
// the provider refuses to give the pod of a ShadowPod the resources that its
// spec asks for now.
const ConditionPodResized = "PodResized"

// ShadowPodStatus is how a shadow pod ended.
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
