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
// remote namespace, and the controllers of the provider create the remote pod of the same name from
// it, also again while the consumer is unreachable. It is deleted with a grace period, like a pod,
// and is gone when the remote pod is. One with the final status of its pod remains for a minute, or
// until it is deleted with a grace period of 0.
type ShadowPod struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Labels and annotations are copied to the remote
	// pod. At most 256 KiB together with the spec.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired pod, written by the virtual kubelet.
	Spec ShadowPodSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the final status of the pod, and why it is not running, written by the controllers
	// of the provider. While the remote pod exists, its own status has the rest.
	// +optional
	Status ShadowPodStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowPodSpec is the desired pod.
type ShadowPodSpec struct {
	// pod is the specification of the remote pod. It is refused if it violates the Pod Security
	// Standard baseline, selects single nodes or nodes with a role, uses tokens of the provider, or
	// exceeds the quota. Only the fields can change that Kubernetes lets change in a running pod.
	Pod corev1.PodSpec `json:"pod" protobuf:"bytes,1,opt,name=pod"`
	// offeredNode is the name in spec.nodes of the ResourceOffer of the node that the local pod is
	// bound to: the pod runs on a node with its labels, and preferably on that node. Empty, or a
	// name of no offer, leaves the choice to the scheduler. A change applies when the pod is
	// created again.
	// +optional
	OfferedNode string `json:"offeredNode,omitempty" protobuf:"bytes,2,opt,name=offeredNode"`
}

// ConditionPodCreated is False while the provider refuses to create the remote pod, and True
// afterwards. It does not exist before the first refusal.
const ConditionPodCreated = "PodCreated"

// ConditionPodResized is False while the provider refuses the resources that the spec requests, and
// True afterwards. It does not exist before the first refusal.
const ConditionPodResized = "PodResized"

// CauseQuotaExceeded is the type of the causes of a response 403 to a ShadowPod that exceeds the
// quota of its consumer. Their fields are the exhausted resources.
const CauseQuotaExceeded metav1.CauseType = "QuotaExceeded"

// CauseTooManyFinished is the type of the cause of a response 403 to a ShadowPod whose consumer has
// too many finished ones.
const CauseTooManyFinished metav1.CauseType = "TooManyFinished"

// ShadowPodStatus is the observed state of a shadow pod.
type ShadowPodStatus struct {
	// phase is Succeeded or Failed once the pod is finished, and empty before. It cannot change
	// afterwards: a finished pod never runs again.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=k8s.io/api/core/v1.PodPhase"`
	// pod is the final status of the remote pod, set together with phase.
	// +optional
	Pod *corev1.PodStatus `json:"pod,omitempty" protobuf:"bytes,2,opt,name=pod"`
	// foreignCluster is the name of the ForeignCluster of the consumer whose quota the pod counts
	// against until it is finished. It is set at creation. Empty in a namespace of no consumer.
	// +optional
	ForeignCluster string `json:"foreignCluster,omitempty" protobuf:"bytes,3,opt,name=foreignCluster"`
	// allocatedResources is the amount of each resource that the pod still has after its spec
	// requested less, until the kubelet has resized it. Of this and the request, the larger amount
	// counts against the quota.
	// +optional
	AllocatedResources corev1.ResourceList `json:"allocatedResources,omitempty" protobuf:"bytes,4,rep,name=allocatedResources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// conditions are PodCreated, which is False while the provider refuses to create the pod, and
	// PodResized, which is False while it refuses the requested resources.
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
