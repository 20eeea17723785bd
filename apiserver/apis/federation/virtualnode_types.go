// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNode is a node to make from an accepted offer, or from a share of
// it. It lives in the peer namespace of its provider; several for one
// provider are fine.
type VirtualNode struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualNodeSpec
	Status VirtualNodeStatus
}

// VirtualNodeSpec is what a virtual node is made of.
type VirtualNodeSpec struct {
	ClusterID string
	NodeName  string
	OfferName string
	Resources corev1.ResourceList
	Labels    map[string]string
}

// Condition types of a VirtualNode beside Ready.
const (
	// ConditionVirtualKubeletAvailable is True while the virtual kubelet's
	// Deployment is available.
	ConditionVirtualKubeletAvailable = "VirtualKubeletAvailable"
)

// VirtualNodeStatus is how a virtual node stands.
type VirtualNodeStatus struct {
	ObservedGeneration int64
	Pods               int32
	Conditions         []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []VirtualNode
}
