// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPod is a pod of a consumer on a provider. A virtual kubelet of the consumer creates it in a
// remote namespace, and the controllers of the provider create a remote pod of the same name from
// it. They create the remote pod again if it is lost, also while the consumer is unreachable. A
// ShadowPod is deleted with a grace period, like a Pod, and exists at least until its remote pod is
// deleted. If the status contains the final status of the remote pod, the ShadowPod exists for up
// to a minute longer: until the consumer has read the status and deletes the ShadowPod with a grace
// period of 0.
type ShadowPod struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Labels and annotations are copied to the remote
	// pod. Metadata and spec are limited to 128 KiB in total.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired remote pod, written by a virtual kubelet of the consumer.
	Spec ShadowPodSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the final status of the remote pod, or the reason for which the provider refuses to
	// create it, written by the controllers of the provider. The status of a running pod is in the
	// status of the remote pod only.
	// +optional
	Status ShadowPodStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowPodSpec is the desired remote pod.
type ShadowPodSpec struct {
	// pod is the specification of the remote pod. The API server refuses it if it violates the Pod
	// Security Standard baseline, selects single nodes or nodes with a role, uses tokens of the
	// provider, or exceeds the quota. Only fields that can change in a running Kubernetes pod can
	// change.
	Pod corev1.PodSpec `json:"pod" protobuf:"bytes,1,opt,name=pod"`
	// offeredNode is the name, in spec.nodes of a ResourceOffer, of the offered node that the
	// virtual node of the local pod represents. The remote pod runs on a node with the labels of
	// the offered node, and preferably on the offered node itself. If offeredNode is empty or no
	// offer contains the name, the remote pod runs on any node that the provider shares with the
	// consumer. A change applies when the remote pod is created again.
	// +optional
	OfferedNode string `json:"offeredNode,omitempty" protobuf:"bytes,2,opt,name=offeredNode"`
}

// ConditionPodCreated is False while the provider refuses to create the remote pod, or while
// another pod has its name, and True once the remote pod is created. It does not exist before it is
// False for the first time.
const ConditionPodCreated = "PodCreated"

// ConditionPodResized is False while the provider refuses to resize the remote pod to the resources
// in the spec, and True once the provider has accepted a resize or the spec requests none any more.
// It does not exist before the first refusal.
const ConditionPodResized = "PodResized"

// ConditionPodPermitted is False while the running remote pod exceeds the limits for pods of the
// consumer, and True once it is within the limits again. It does not exist before the pod exceeds
// them for the first time.
const ConditionPodPermitted = "PodPermitted"

// CauseQuotaExceeded is the type of the causes in a 403 response to the creation or change of a
// ShadowPod that exceeds the quota of its consumer. The response has one cause per exhausted
// resource, with the resource as its field.
const CauseQuotaExceeded metav1.CauseType = "QuotaExceeded"

// CauseTooManyFinished is the type of the cause in a 403 response to the creation of a ShadowPod
// whose consumer already has as many finished ShadowPods as it may keep: the number of pods in its
// quota, but at least 1000 and at most 12500.
const CauseTooManyFinished metav1.CauseType = "TooManyFinished"

// ShadowPodStatus is the observed state of a shadow pod.
type ShadowPodStatus struct {
	// phase is Succeeded or Failed once the remote pod is finished, and empty before. A set phase
	// cannot change: a finished pod never runs again.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=k8s.io/api/core/v1.PodPhase"`
	// pod is the final status of the remote pod, set together with phase. Empty before.
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty" protobuf:"bytes,2,opt,name=pod"`
	// foreignCluster is the name of the ForeignCluster of the consumer whose quota the pod uses
	// until it is finished. The API server sets it at creation. Empty in a namespace that belongs
	// to no consumer.
	// +optional
	ForeignCluster string `json:"foreignCluster,omitempty" protobuf:"bytes,3,opt,name=foreignCluster"`
	// allocatedResources is the amount of each resource that the remote pod still has after spec
	// was changed to request less, until the kubelet has resized the pod. The quota usage is the
	// larger of the allocated and the requested amount. Empty when no such resize is pending.
	// +optional
	AllocatedResources corev1.ResourceList `json:"allocatedResources,omitempty" protobuf:"bytes,4,rep,name=allocatedResources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// conditions are PodCreated, which is False while the provider refuses to create the remote pod;
	// PodResized, which is False while the provider refuses to resize it; and PodPermitted, which is
	// False while the running remote pod exceeds the limits for pods of the consumer.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowPodList is a list of ShadowPods.
type ShadowPodList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ShadowPods.
	Items []ShadowPod `json:"items" protobuf:"bytes,2,rep,name=items"`
}
