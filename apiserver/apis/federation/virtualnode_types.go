// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNode configures one virtual node of the local cluster, which represents an accepted
// ResourceOffer or one node in it.
type VirtualNode struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualNodeSpec
	Status VirtualNodeStatus
}

// VirtualNodeSpec is the desired state of a virtual node.
type VirtualNodeSpec struct {
	ClusterID string
	NodeName  string
	OfferName string
	// OfferedNode is empty if the virtual node represents the offer as a whole.
	OfferedNode string
	Resources   corev1.ResourceList
	Labels      map[string]string
	Reflection  VirtualNodeReflection
	APIAccess   APIAccess

	OffloadingPatch *OffloadingPatch
}

// OffloadingPatch changes the remote pods of a virtual node.
type OffloadingPatch struct {
	NodeSelector     map[string]string
	Affinity         *corev1.Affinity
	Tolerations      []corev1.Toleration
	RuntimeClassName *string

	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// APIAccess determines whether pods on a virtual node have access to the consumer's API server.
type APIAccess string

// Values of APIAccess, documented in v1alpha1.
const (
	APIAccessConsumer APIAccess = "Consumer"
	APIAccessDisabled APIAccess = "Disabled"
)

// VirtualNodeReflection selects the objects of offloaded namespaces that are reflected to a
// provider, and which of their labels and annotations are copied.
type VirtualNodeReflection struct {
	Kinds               []ReflectedKind
	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// ReflectedKind selects the objects of one kind that are reflected, and which of their labels and
// annotations are copied.
type ReflectedKind struct {
	Group               string
	Version             string
	Resource            string
	Policy              ReflectionPolicy
	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// ReflectionPolicy selects the objects of a kind that are reflected.
type ReflectionPolicy string

// Values of ReflectionPolicy, documented in v1alpha1.
const (
	ReflectionDenyList  ReflectionPolicy = "DenyList"
	ReflectionAllowList ReflectionPolicy = "AllowList"
)

// Condition types of a VirtualNode, in addition to ConditionReady; documented in v1alpha1.
const (
	ConditionVirtualKubeletAvailable = "VirtualKubeletAvailable"
	ConditionKindsReflected          = "KindsReflected"
)

// VirtualNodeNetwork describes how addresses are remapped between the local cluster and the
// provider.
type VirtualNodeNetwork struct {
	Local  []CIDRMapping
	Remote []CIDRMapping
}

// VirtualNodeStatus is the observed state of a virtual node.
type VirtualNodeStatus struct {
	ObservedGeneration  int64
	Pods                int32
	ReflectedKinds      []metav1.GroupVersionResource
	IngressClasses      []string
	LoadBalancerClasses []string
	Network             *VirtualNodeNetwork
	Conditions          []metav1.Condition
	StorageClasses      []string
	Storage             corev1.ResourceList
	APIAccess           APIAccess
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []VirtualNode
}
