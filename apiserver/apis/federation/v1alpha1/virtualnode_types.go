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
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what the node is made of.
	Spec VirtualNodeSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how the node stands.
	// +optional
	Status VirtualNodeStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VirtualNodeSpec is what a virtual node is made of.
type VirtualNodeSpec struct {
	// clusterID is the id of the cluster behind the node. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// nodeName is the name of the Node, which begins with liqo-. It cannot change.
	NodeName string `json:"nodeName" protobuf:"bytes,2,opt,name=nodeName"`
	// offerName is the ResourceOffer in the same namespace that the node is
	// made from.
	// +optional
	OfferName string `json:"offerName,omitempty" protobuf:"bytes,3,opt,name=offerName"`
	// offeredNode is the node of that offer that this one stands for, see
	// spec.nodes of the ResourceOffer; empty stands for the provider as a whole. It
	// cannot change.
	// +optional
	OfferedNode string `json:"offeredNode,omitempty" protobuf:"bytes,4,opt,name=offeredNode"`
	// resources become the node's capacity.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,5,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// labels are added to the node.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,6,rep,name=labels"`
	// apiAccess says whether the pods of the node reach the API server of this
	// cluster with tokens of their own service accounts: Home or Disabled. Empty
	// is Home where this cluster knows under which address they reach it, and
	// Disabled elsewhere.
	// +optional
	APIAccess APIAccess `json:"apiAccess,omitempty" protobuf:"bytes,7,opt,name=apiAccess,casttype=APIAccess"`
	// reflection says which objects of offloaded namespaces follow their pods to
	// the provider. Where several virtual nodes stand for one cluster, that of
	// the oldest counts: they share the namespaces there.
	// +optional
	Reflection VirtualNodeReflection `json:"reflection,omitzero" protobuf:"bytes,8,opt,name=reflection"`
	// offloadingPatch is what the pods of the node get on the provider, and
	// what of them stays home. When it changes, labels, annotations and
	// additional tolerations reach the pods that run; the rest is for new ones.
	// +optional
	OffloadingPatch *OffloadingPatch `json:"offloadingPatch,omitempty" protobuf:"bytes,9,opt,name=offloadingPatch"`
}

// OffloadingPatch is what the pods of a virtual node get on the provider, and
// what of them stays home.
type OffloadingPatch struct {
	// nodeSelector is that of the pods on the provider, in the labels of its
	// nodes. The pods' own, which chose the virtual node, is not taken along. It
	// cannot name a node, nor nodes with a role.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty" protobuf:"bytes,1,rep,name=nodeSelector"`
	// affinity is that of the pods on the provider: to its nodes, and to pods
	// of their own namespace, in addition to the terms that the pods bring along
	// themselves. It cannot name a node, nor other namespaces.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty" protobuf:"bytes,2,opt,name=affinity"`
	// tolerations are added to those that the pods bring along. They cannot
	// tolerate every taint, nor those of nodes with a role, nor those with which
	// a cluster says how its nodes are, as that they are cordoned.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty" protobuf:"bytes,3,rep,name=tolerations"`
	// runtimeClassName is that of the pods on the provider, in place of their
	// own; empty is the provider's default.
	// +optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty" protobuf:"bytes,4,opt,name=runtimeClassName"`
	// excludedLabels are the keys of labels of pods that stay home, and with them
	// what selects pods by these. Keys of liqo.io cannot stay. At most 128.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,5,rep,name=excludedLabels"`
	// excludedAnnotations are the keys of annotations of pods that stay home.
	// Keys of liqo.io cannot. At most 128.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,6,rep,name=excludedAnnotations"`
}

// APIAccess says which API server a pod that runs on a provider talks to.
// +enum
type APIAccess string

const (
	// APIAccessConsumer is the API server of the pod's own cluster: its tokens
	// follow it, and its clients are led home.
	APIAccessConsumer APIAccess = "Consumer"
	// APIAccessDisabled is none: tokens stay home.
	APIAccessDisabled APIAccess = "Disabled"
)

// VirtualNodeReflection says which objects of offloaded namespaces are copied
// to the provider, and with which metadata. ConfigMaps, Secrets, Services with
// their EndpointSlices, and Ingresses are copied without being named.
type VirtualNodeReflection struct {
	// kinds are those of which something else is said than that they are
	// copied, and those that would not be. A kind beside these has to be
	// offered by the provider, see spec.reflectedKinds of the ResourceOffer, and
	// to be served by both clusters; the condition KindsReflected tells whether
	// it is. At most 32.
	// +optional
	// +listType=atomic
	Kinds []ReflectedKind `json:"kinds,omitempty" protobuf:"bytes,1,rep,name=kinds"`
	// excludedLabels are keys of labels that no copy of any kind has.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,2,rep,name=excludedLabels"`
	// excludedAnnotations are keys of annotations that no copy of any kind has.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,3,rep,name=excludedAnnotations"`
}

// ReflectedKind says how the objects of one kind are copied to the provider.
type ReflectedKind struct {
	// group is the API group of the kind; empty is the core group.
	// +optional
	Group string `json:"group,omitempty" protobuf:"bytes,1,opt,name=group"`
	// version is the API version that both clusters serve it in.
	Version string `json:"version" protobuf:"bytes,2,opt,name=version"`
	// resource is its plural name, as in configmaps.
	Resource string `json:"resource" protobuf:"bytes,3,opt,name=resource"`
	// policy is DenyList, where all objects are copied but those that are kept
	// home by liqo.io/skip-reflection, or AllowList, where only those are that
	// are sent by liqo.io/allow-reflection. Empty is DenyList.
	// +optional
	Policy ReflectionPolicy `json:"policy,omitempty" protobuf:"bytes,4,opt,name=policy,casttype=ReflectionPolicy"`
	// excludedLabels are keys of labels that copies of this kind do not have.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,5,rep,name=excludedLabels"`
	// excludedAnnotations are keys of annotations that copies of this kind do
	// not have.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,6,rep,name=excludedAnnotations"`
}

// ReflectionPolicy says which objects of a kind are copied.
// +enum
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
	// names is copied to the provider; its message says what is missing for the
	// others. A VirtualNode that names none has no such condition.
	ConditionKindsReflected = "KindsReflected"
	// ConditionNetworkReady is True while the pods of the two clusters reach each
	// other: endpoints of Services are sent to the provider then, and only then.
	ConditionNetworkReady = "NetworkReady"
)

// VirtualNodeNetwork says what addresses are called on both sides of a tunnel.
// One that is in none of the ranges is not reached from the other side; until
// the tunnel is agreed upon there are no ranges.
type VirtualNodeNetwork struct {
	// local are our ranges and what the provider calls them.
	// +optional
	// +listType=atomic
	Local []CIDRMapping `json:"local,omitempty" protobuf:"bytes,1,rep,name=local"`
	// remote are the provider's ranges as it calls them and what we call them.
	// +optional
	// +listType=atomic
	Remote []CIDRMapping `json:"remote,omitempty" protobuf:"bytes,2,rep,name=remote"`
}

// VirtualNodeStatus is how a virtual node stands.
type VirtualNodeStatus struct {
	// observedGeneration is the generation of the spec that this status
	// answers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// pods counts the pods that are bound to the node and not finished.
	// +optional
	Pods int32 `json:"pods,omitempty" protobuf:"varint,2,opt,name=pods"`
	// reflectedKinds are those of spec.reflection.kinds beside ConfigMaps,
	// Secrets, Services, EndpointSlices and Ingresses that the virtual kubelet
	// copies: what the provider offers, this cluster serves and its virtual
	// kubelets may read.
	// +optional
	// +listType=atomic
	ReflectedKinds []metav1.GroupVersionResource `json:"reflectedKinds,omitempty" protobuf:"bytes,3,rep,name=reflectedKinds"`
	// ingressClasses are those of the offer: what copies of Ingresses may name on
	// the provider. One that names another class here gets the first of them, and
	// where there are none the provider's own default.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,4,rep,name=ingressClasses"`
	// loadBalancerClasses are the same for Services of type LoadBalancer.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,5,rep,name=loadBalancerClasses"`
	// network says what addresses are called on both sides, where networking is
	// Tunnel. Without it each address is the same on both sides.
	// +optional
	Network *VirtualNodeNetwork `json:"network,omitempty" protobuf:"bytes,6,opt,name=network"`
	// conditions are Ready, VirtualKubeletAvailable, NetworkReady and
	// KindsReflected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,7,rep,name=conditions"`
	// storageClasses are those of the offer that claims may use on the provider; the
	// first is the default. Empty where the provider offers no storage.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,8,rep,name=storageClasses"`
	// storage is the storage quota of the offer, as in its spec.storage. It is no
	// capacity of the Node.
	// +optional
	Storage corev1.ResourceList `json:"storage,omitempty" protobuf:"bytes,9,rep,name=storage,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the virtual nodes.
	Items []VirtualNode `json:"items" protobuf:"bytes,2,rep,name=items"`
}
