// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNode is a node to make from an accepted offer, or from a share of
// it. It lives in the peer namespace of its provider; several for one
// provider are fine.
type VirtualNode struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the node is made of.
	Spec VirtualNodeSpec `json:"spec"`
	// status is how the node stands.
	// +optional
	Status VirtualNodeStatus `json:"status,omitempty"`
}

// VirtualNodeSpec is what a virtual node is made of.
type VirtualNodeSpec struct {
	// clusterID is the id of the cluster behind the node. It cannot change.
	ClusterID string `json:"clusterID"`
	// nodeName is the name of the Node. It cannot change.
	NodeName string `json:"nodeName"`
	// offerName is the ResourceOffer in the same namespace that the node is
	// made from.
	// +optional
	OfferName string `json:"offerName,omitempty"`
	// resources become the node's capacity.
	Resources corev1.ResourceList `json:"resources"`
	// labels are added to the node.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// Condition types of a VirtualNode beside Ready.
const (
	// ConditionVirtualKubeletAvailable is True while the virtual kubelet's
	// Deployment is available.
	ConditionVirtualKubeletAvailable = "VirtualKubeletAvailable"
)

// VirtualNodeStatus is how a virtual node stands.
type VirtualNodeStatus struct {
	// observedGeneration is the generation of the spec that this status
	// answers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// pods counts the pods that are bound to the node and not finished.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// conditions are Ready and VirtualKubeletAvailable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the virtual nodes.
	Items []VirtualNode `json:"items"`
}
