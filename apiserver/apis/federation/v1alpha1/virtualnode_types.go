// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNode configures one virtual node of the local cluster, which represents an accepted
// ResourceOffer or one node in it. The controllers create the VirtualNodes of an offer in the peer
// namespace of the provider, and run a virtual kubelet for each VirtualNode. Administrators can
// create more VirtualNodes, and can set apiAccess, reflection and offloadingPatch of each.
type VirtualNode struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is a DNS label of at most 40 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired state of the virtual node. The controllers write the fields that an offer
	// determines; administrators write apiAccess, reflection and offloadingPatch, and the whole
	// spec of VirtualNodes that they create.
	Spec VirtualNodeSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the virtual node, written by the controllers.
	// +optional
	Status VirtualNodeStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VirtualNodeSpec is the desired state of a virtual node.
type VirtualNodeSpec struct {
	// clusterID is the UID of the namespace kube-system of the provider. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// nodeName is the name of the Node: liqo- and the name of the VirtualNode, at most 63
	// characters. It cannot change.
	NodeName string `json:"nodeName" protobuf:"bytes,2,opt,name=nodeName"`
	// offerName is the name of the ResourceOffer in the same namespace that the node represents.
	// The VirtualNode is deleted when the offer is withdrawn or refused. Empty means that it does
	// not depend on an offer.
	// +optional
	OfferName string `json:"offerName,omitempty" protobuf:"bytes,3,opt,name=offerName"`
	// offeredNode is the name, in spec.nodes of the ResourceOffer, of the node that the virtual
	// node represents. Empty means that it represents the offer as a whole. It requires offerName,
	// and cannot change.
	// +optional
	OfferedNode string `json:"offeredNode,omitempty" protobuf:"bytes,4,opt,name=offeredNode"`
	// resources is the capacity of the Node, with at least one resource.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,5,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// labels are labels that the virtual kubelet adds to the Node.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,6,rep,name=labels"`
	// apiAccess determines whether pods on the node have access to the API server of the local
	// cluster with tokens of their ServiceAccounts. If empty, spec.apiAccess of the ForeignCluster
	// applies, with the defaults that are documented there. Pods have no access if the value
	// consumerAPIServer of the installation is empty.
	// +optional
	APIAccess APIAccess `json:"apiAccess,omitempty" protobuf:"bytes,7,opt,name=apiAccess,casttype=APIAccess"`
	// reflection selects the objects of offloaded namespaces that are reflected to the provider.
	// If a provider has several virtual nodes, only the reflection of the oldest VirtualNode
	// applies. If empty, the defaults are used.
	// +optional
	Reflection VirtualNodeReflection `json:"reflection,omitzero" protobuf:"bytes,8,opt,name=reflection"`
	// offloadingPatch changes the remote pods of the virtual node. Changes of excludedLabels and
	// excludedAnnotations, and added tolerations, apply to running pods; all other changes apply only
	// to new pods.
	// +optional
	OffloadingPatch *OffloadingPatch `json:"offloadingPatch,omitempty" protobuf:"bytes,9,opt,name=offloadingPatch"`
}

// OffloadingPatch changes the remote pods of a virtual node.
type OffloadingPatch struct {
	// nodeSelector selects, by labels, the nodes of the provider that remote pods run on. It
	// replaces the node selector of the local pod, which selects among virtual nodes. It cannot
	// select single nodes or nodes with a role. Empty selects all nodes that the provider shares
	// with the consumer.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty" protobuf:"bytes,1,rep,name=nodeSelector"`
	// affinity is the affinity of remote pods. Its node affinity selects nodes of the provider. Its
	// terms for pod affinity and anti-affinity are added to the terms of the local pod, and apply
	// only within the remote namespace. It cannot select single nodes, nodes with a role, or other
	// namespaces.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty" protobuf:"bytes,2,opt,name=affinity"`
	// tolerations are added to the tolerations of remote pods, at most 100. A key is required. Keys
	// with the prefix node-role.kubernetes.io, node.kubernetes.io or node.cloudprovider.kubernetes.io,
	// and the taint of virtual nodes, are refused; node.kubernetes.io/not-ready and
	// node.kubernetes.io/unreachable are permitted.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty" protobuf:"bytes,3,rep,name=tolerations"`
	// runtimeClassName is the RuntimeClass of remote pods. If it is not set, remote pods have the
	// RuntimeClass of the local pod; the empty string selects the default runtime of the provider.
	// +optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty" protobuf:"bytes,4,opt,name=runtimeClassName"`
	// excludedLabels are the keys of labels that are not copied to remote pods. Label selectors in
	// the pod that use such a key are left out as well. Keys of liqo.io are not permitted. At most
	// 128.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,5,rep,name=excludedLabels"`
	// excludedAnnotations are the keys of annotations that are not copied to remote pods. Keys of
	// liqo.io are not permitted. At most 128.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,6,rep,name=excludedAnnotations"`
}

// APIAccess determines whether pods on a virtual node have access to the consumer's API server.
// +enum
type APIAccess string

const (
	// APIAccessConsumer gives access: the ServiceAccount tokens of pods are reflected, and the host
	// name kubernetes.default.svc and the variables KUBERNETES_SERVICE_* refer to the consumer's
	// API server.
	APIAccessConsumer APIAccess = "Consumer"
	// APIAccessDisabled gives no access: the ServiceAccount tokens of pods are not reflected.
	APIAccessDisabled APIAccess = "Disabled"
)

// VirtualNodeReflection selects the objects of offloaded namespaces that are reflected to a
// provider, and which of their labels and annotations are copied. ConfigMaps, Secrets, Services
// with their EndpointSlices, and Ingresses are reflected by default.
type VirtualNodeReflection struct {
	// kinds are additional kinds to reflect, and settings for kinds that are reflected by default.
	// An additional kind must be in spec.reflectedKinds of the ResourceOffer and be served by both
	// clusters; the condition KindsReflected reports whether it is reflected. At most 32. Empty
	// reflects the default kinds only.
	// +optional
	// +listType=atomic
	Kinds []ReflectedKind `json:"kinds,omitempty" protobuf:"bytes,1,rep,name=kinds"`
	// excludedLabels are the keys of labels that are not copied to reflected objects of any kind.
	// Keys of liqo.io are not permitted. At most 128.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,2,rep,name=excludedLabels"`
	// excludedAnnotations are the keys of annotations that are not copied to reflected objects of
	// any kind. Keys of liqo.io are not permitted. At most 128.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,3,rep,name=excludedAnnotations"`
}

// ReflectedKind selects the objects of one kind that are reflected, and which of their labels and
// annotations are copied.
type ReflectedKind struct {
	// group is the API group of the kind. Empty is the core group.
	// +optional
	Group string `json:"group,omitempty" protobuf:"bytes,1,opt,name=group"`
	// version is the version of the API group, for example v1. Both clusters must serve it.
	Version string `json:"version" protobuf:"bytes,2,opt,name=version"`
	// resource is the plural name of the kind, for example configmaps.
	Resource string `json:"resource" protobuf:"bytes,3,opt,name=resource"`
	// policy is the reflection policy of the kind. The default is DenyList.
	// +optional
	Policy ReflectionPolicy `json:"policy,omitempty" protobuf:"bytes,4,opt,name=policy,casttype=ReflectionPolicy"`
	// excludedLabels are the keys of labels that are not copied to reflected objects of this kind,
	// in addition to the keys for all kinds. Keys of liqo.io are not permitted. At most 128.
	// +optional
	// +listType=set
	ExcludedLabels []string `json:"excludedLabels,omitempty" protobuf:"bytes,5,rep,name=excludedLabels"`
	// excludedAnnotations are the keys of annotations that are not copied to reflected objects of
	// this kind, in addition to the keys for all kinds. Keys of liqo.io are not permitted. At most
	// 128.
	// +optional
	// +listType=set
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty" protobuf:"bytes,6,rep,name=excludedAnnotations"`
}

// ReflectionPolicy selects the objects of a kind that are reflected.
// +enum
type ReflectionPolicy string

const (
	// ReflectionDenyList reflects all objects except those with the annotation
	// liqo.io/skip-reflection.
	ReflectionDenyList ReflectionPolicy = "DenyList"
	// ReflectionAllowList reflects only objects with the annotation liqo.io/allow-reflection and
	// without liqo.io/skip-reflection.
	ReflectionAllowList ReflectionPolicy = "AllowList"
)

// Condition types of a VirtualNode, in addition to ConditionReady.
const (
	// ConditionVirtualKubeletAvailable is True while the Deployment of the virtual kubelet is
	// available, and False otherwise.
	ConditionVirtualKubeletAvailable = "VirtualKubeletAvailable"
	// ConditionKindsReflected is True while all kinds in spec.reflection.kinds are reflected.
	// Otherwise it is False, with a message that names each kind that is not reflected and the
	// reason. It exists while spec.reflection.kinds is not empty.
	ConditionKindsReflected = "KindsReflected"
	// ConditionNetworkReady is True while the pods of both clusters reach each other, and False
	// otherwise. Endpoints of Services are reflected only while it is True.
	ConditionNetworkReady = "NetworkReady"
)

// VirtualNodeNetwork describes how addresses are remapped between the local cluster and the
// provider. An address that is in none of the CIDRs cannot be reached from the other cluster. Both
// lists are empty until the clusters have agreed on the configuration of the tunnel.
type VirtualNodeNetwork struct {
	// local are the CIDRs of the local cluster, each with the CIDR that the provider remaps it to.
	// +optional
	// +listType=atomic
	Local []CIDRMapping `json:"local,omitempty" protobuf:"bytes,1,rep,name=local"`
	// remote are the CIDRs of the provider, each with the CIDR that the local cluster remaps it to.
	// +optional
	// +listType=atomic
	Remote []CIDRMapping `json:"remote,omitempty" protobuf:"bytes,2,rep,name=remote"`
}

// VirtualNodeStatus is the observed state of a virtual node.
type VirtualNodeStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// pods is the number of unfinished pods that are bound to the node.
	// +optional
	Pods int32 `json:"pods,omitempty" protobuf:"varint,2,opt,name=pods"`
	// reflectedKinds are the additional kinds of spec.reflection.kinds that are reflected: the
	// provider offers them, the local cluster serves them, and its virtual kubelets may read them.
	// +optional
	// +listType=atomic
	ReflectedKinds []metav1.GroupVersionResource `json:"reflectedKinds,omitempty" protobuf:"bytes,3,rep,name=reflectedKinds"`
	// ingressClasses are the IngressClasses of the offer, which reflected Ingresses may use. A
	// reflected Ingress has the first class if the class of the local Ingress is not in the list. If
	// empty, reflected Ingresses have no class, and get the default IngressClass of the provider.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,4,rep,name=ingressClasses"`
	// loadBalancerClasses are the load balancer classes of the offer, which reflected Services of type
	// LoadBalancer may use. A reflected Service has the first class if the class of the local Service
	// is not in the list. If empty, reflected Services have no class, and get the default load
	// balancer of the provider.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,5,rep,name=loadBalancerClasses"`
	// network describes how addresses are remapped. Empty unless networking of the ForeignCluster
	// is Tunnel. With Flat, addresses are the same in both clusters. With None, remote pods have no
	// address in the local cluster.
	// +optional
	Network *VirtualNodeNetwork `json:"network,omitempty" protobuf:"bytes,6,opt,name=network"`
	// conditions are Ready, a copy of the condition Ready of the Node; VirtualKubeletAvailable,
	// which is True while the virtual kubelet runs; NetworkReady, which is True while the pods of
	// both clusters reach each other; and KindsReflected, which is False while a kind in
	// spec.reflection.kinds is not reflected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,7,rep,name=conditions"`
	// storageClasses are the StorageClasses of the offer, which claims may use on the provider, the
	// default class first. Empty if the provider offers no storage.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,8,rep,name=storageClasses"`
	// storage is spec.storage of the offer, the limits of claims on the provider. It is not part of
	// the capacity of the Node. Empty if the provider offers no storage.
	// +optional
	Storage corev1.ResourceList `json:"storage,omitempty" protobuf:"bytes,9,rep,name=storage,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// apiAccess determines whether pods on the node have access to the API server of the local
	// cluster while spec.apiAccess is empty. The controllers copy it from spec.apiAccess of the
	// ForeignCluster or the default of that field, and write Disabled if the value consumerAPIServer
	// of the installation is empty. While it is empty, too, pods have no access.
	// +optional
	APIAccess APIAccess `json:"apiAccess,omitempty" protobuf:"bytes,10,opt,name=apiAccess,casttype=APIAccess"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualNodeList is a list of VirtualNodes.
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the VirtualNodes.
	Items []VirtualNode `json:"items" protobuf:"bytes,2,rep,name=items"`
}
