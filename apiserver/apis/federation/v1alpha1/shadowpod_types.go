// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPod is a pod that the provider keeps alive by itself, also while the
// consumer is away. The pod has its name, and the labels and annotations of
// its metadata. It is deleted as a pod is, with a grace period, and goes when
// its pod is gone. If that tells how it ended, it is kept for a minute longer,
// or until it is deleted with a grace period of 0.
type ShadowPod struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the pod that is wanted.
	Spec ShadowPodSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how it ended, and what keeps it from running; while the pod is
	// there, the pod itself tells the rest.
	// +optional
	Status ShadowPodStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowPodSpec is the pod that is wanted.
type ShadowPodSpec struct {
	// pod is the specification of the pod. It cannot ask for what the Pod
	// Security level baseline refuses, nor name a node. Only the fields that
	// Kubernetes lets change in a running pod can change.
	Pod corev1.PodSpec `json:"pod" protobuf:"bytes,1,opt,name=pod"`
	// offeredNode is the node of the provider's offer that the pod was bound to,
	// see spec.nodes of the ResourceOffer: the pod runs on a node with its labels,
	// and on that node itself while there is room. Empty, or no node of an offer,
	// leaves the choice to the provider. A change counts when the pod is made anew.
	// +optional
	OfferedNode string `json:"offeredNode,omitempty" protobuf:"bytes,2,opt,name=offeredNode"`
}

// ConditionPodCreated is False, with a reason and the provider's message,
// while the provider refuses to create the pod of a ShadowPod.
const ConditionPodCreated = "PodCreated"

// ConditionPodResized is False, with a reason and the provider's message, while
// the provider refuses to give the pod of a ShadowPod the resources that its
// spec asks for now.
const ConditionPodResized = "PodResized"

// CauseGrantExceeded is the type of the causes in the answer 403 to a
// ShadowPod for which its consumer was not granted enough. Their fields name
// the resources that are short.
const CauseGrantExceeded metav1.CauseType = "GrantExceeded"

// CauseTooManyFinished is the type of the cause in the answer 403 to a ShadowPod
// whose consumer keeps too many that are finished.
const CauseTooManyFinished metav1.CauseType = "TooManyFinished"

// ShadowPodStatus is how a shadow pod ended, and whose it is.
type ShadowPodStatus struct {
	// phase is empty until the pod is finished; then Succeeded or Failed, for
	// good: a finished pod never runs again.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=k8s.io/api/core/v1.PodPhase"`
	// pod is the last status of the finished pod.
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty" protobuf:"bytes,2,opt,name=pod"`
	// foreignCluster is the consumer whose grant the pod counts against until
	// it is finished. It is set when the shadow pod is created, and empty where
	// the namespace is no consumer's.
	// +optional
	ForeignCluster string `json:"foreignCluster,omitempty" protobuf:"bytes,3,opt,name=foreignCluster"`
	// allocatedResources is what the pod took before it was asked to take less,
	// until it does: of that and of what spec asks for the larger counts.
	// +optional
	AllocatedResources corev1.ResourceList `json:"allocatedResources,omitempty" protobuf:"bytes,4,rep,name=allocatedResources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// conditions say what keeps the pod from running, PodCreated, or from having
	// the resources that it is to have, PodResized.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPodList is a list of ShadowPods.
type ShadowPodList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the shadow pods.
	Items []ShadowPod `json:"items" protobuf:"bytes,2,rep,name=items"`
}
