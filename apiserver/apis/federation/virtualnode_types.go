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
	// OfferedNode is empty where the node stands for the provider as a whole.
	OfferedNode string
	Resources   corev1.ResourceList
	Labels      map[string]string
	Reflection  VirtualNodeReflection
	APIAccess   APIAccess

	OffloadingPatch *OffloadingPatch
}

// OffloadingPatch is what the pods of a virtual node get on the provider, and
// what of them stays home.
type OffloadingPatch struct {
	NodeSelector     map[string]string
	Affinity         *corev1.Affinity
	Tolerations      []corev1.Toleration
	RuntimeClassName *string

	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// APIAccess says which API server a pod that runs on a provider talks to.
type APIAccess string

const (
	// APIAccessConsumer is the API server of the pod's own cluster: its tokens
	// follow it, and its clients are led home.
	APIAccessConsumer APIAccess = "Consumer"
	// APIAccessDisabled is none: tokens stay home.
	APIAccessDisabled APIAccess = "Disabled"
)

// VirtualNodeReflection says which objects of offloaded namespaces are copied
// to the provider, and with which metadata.
type VirtualNodeReflection struct {
	Kinds               []ReflectedKind
	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// ReflectedKind says how the objects of one kind are copied to the provider.
type ReflectedKind struct {
	Group               string
	Version             string
	Resource            string
	Policy              ReflectionPolicy
	ExcludedLabels      []string
	ExcludedAnnotations []string
}

// ReflectionPolicy says which objects of a kind are copied.
type ReflectionPolicy string

const (
	// ReflectionDenyList copies all objects but those that are kept home by the
	// annotation liqo.io/skip-reflection.
	ReflectionDenyList ReflectionPolicy = "DenyList"
	// ReflectionAllowList copies only objects that are sent by the annotation
	// liqo.io/allow-reflection, and not kept home by the other one.
	ReflectionAllowList ReflectionPolicy = "AllowList"
)

// Condition types of a VirtualNode beside Ready.
const (
	// ConditionVirtualKubeletAvailable is True while the virtual kubelet's
	// Deployment is available.
	ConditionVirtualKubeletAvailable = "VirtualKubeletAvailable"
	// ConditionKindsReflected is True when every kind that spec.reflection
	// names is copied to the provider.
	ConditionKindsReflected = "KindsReflected"
)

// VirtualNodeNetwork says what addresses are called on both sides of a tunnel.
type VirtualNodeNetwork struct {
	Local  []CIDRMapping
	Remote []CIDRMapping
}

// VirtualNodeStatus is how a virtual node stands.
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
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []VirtualNode
}
