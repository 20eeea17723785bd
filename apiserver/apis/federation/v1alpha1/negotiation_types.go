// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:method=RenewIdentity,verb=create,subresource=identity,input=IdentityRequest,result=IdentityRequest
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequest states which resources a consumer requests from a provider. The controllers of
// the consumer create it in the peer namespace and replicate it to the tenant namespace on the
// provider, and the controllers of the provider write their decision to the status.
type ResourceRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the consumer.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the request, written by the controllers of the consumer.
	// +optional
	Spec ResourceRequestSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the decision about the request, written by the controllers of the provider.
	// +optional
	Status ResourceRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceRequestSpec is the request of a consumer.
type ResourceRequestSpec struct {
	// resources is the requested amount of each resource, from spec.resources of the
	// ForeignCluster. Empty requests as much as the policy of the provider allows.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,1,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// withdrawn ends the peering: the provider deletes the workloads of the consumer, and then revokes
	// the identity of the consumer. The default is false.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,2,opt,name=withdrawn"`
	// apiVersions are the versions of this API that the consumer supports, in order of preference,
	// at most 32. Empty is v1alpha1.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,3,rep,name=apiVersions"`
	// features are the names of the optional features that the consumer supports, for example Tunnel.
	// At most 32. Empty means none.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,4,rep,name=features"`
}

// NegotiationPhase is the state of a resource request or offer.
// +enum
type NegotiationPhase string

const (
	// NegotiationPending means that the provider has not decided about the request yet, or the
	// consumer about the offer.
	NegotiationPending NegotiationPhase = "Pending"
	// NegotiationAccepted means that the provider accepts the request, or the consumer the offer.
	NegotiationAccepted NegotiationPhase = "Accepted"
	// NegotiationRefused means that the provider refuses the request, or the consumer the offer.
	NegotiationRefused NegotiationPhase = "Refused"
	// NegotiationManualActionRequired means that an administrator has to decide: of the provider about
	// the request, or of the consumer about the offer.
	NegotiationManualActionRequired NegotiationPhase = "ManualActionRequired"
	// NegotiationWithdrawn means that the request was withdrawn, and that the provider has deleted the
	// remote namespaces of the consumer, except those that still contain volumes; or that the offer
	// was withdrawn, and that the consumer has deleted the virtual nodes for the offer.
	NegotiationWithdrawn NegotiationPhase = "Withdrawn"
)

// ConditionAccepted is True while a resource request, resource offer, NetworkConfig or
// IdentityRequest is accepted, and False while it is refused or waits for a decision. For a
// resource request or offer the reason is the phase. On a consumer the status is Unknown while the
// provider reports a phase that the version of the consumer does not define.
const ConditionAccepted = "Accepted"

// ConditionWithinQuota of a ResourceRequest is False while the quota usage of the consumer exceeds
// its quota, for example after an offer was reduced: existing pods and claims are kept, and new
// ones that need an exceeded resource are refused. It is True afterwards, and does not exist before
// the quota was exceeded for the first time.
const ConditionWithinQuota = "WithinQuota"

// ResourceRequestStatus is the decision of the provider about a resource request.
type ResourceRequestStatus struct {
	// phase is the state of the request.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// offerName is the name of the ResourceOffer that the controllers of the provider created for
	// the request, in the same namespace. Empty without an offer. The controllers of the consumer
	// create virtual nodes for the offer.
	// +optional
	OfferName string `json:"offerName,omitempty" protobuf:"bytes,3,opt,name=offerName"`
	// apiVersions are the versions of this API that the provider supports, in order of preference,
	// at most 32. Empty is v1alpha1.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,4,rep,name=apiVersions"`
	// features are the names of the optional features that the provider supports, for example Tunnel.
	// At most 32. Empty means none.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// conditions are Accepted, which is True while the provider accepts the request, and
	// WithinQuota, which is False while the quota usage of the consumer exceeds its quota.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,6,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequestList is a list of ResourceRequests.
type ResourceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ResourceRequests.
	Items []ResourceRequest `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOffer states which resources a provider offers to a consumer. The controllers or an
// administrator of the provider create it in the tenant namespace. The controllers of the consumer
// replicate it to the peer namespace and write their decision to the status. The sum of the
// accepted offers is the quota of the consumer.
type ResourceOffer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is a DNS label of at most 40 characters;
	// the controllers use the name of the provider.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the offer, written by the controllers or an administrator of the provider.
	Spec ResourceOfferSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the decision about the offer, written by the controllers of the consumer.
	// +optional
	Status ResourceOfferStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceOfferSpec is the content of an offer.
type ResourceOfferSpec struct {
	// clusterID is the UID of the namespace kube-system of the provider. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// resources is the amount of each resource that the pods of the consumer may request in total,
	// at least one resource. Pods cannot request a resource that no accepted offer contains.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// nodes are the offered nodes of the provider, if the offer has the shape PerNode: the consumer
	// creates a virtual node for each. The sum of their resources does not exceed spec.resources.
	// At most 32. Empty means the shape Aggregate, with one virtual node.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []OfferedNode `json:"nodes,omitempty" protobuf:"bytes,3,rep,name=nodes"`
	// labels are added to the virtual nodes that the consumer creates for the offer.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,4,rep,name=labels"`
	// storageClasses are the names of the StorageClasses that claims of the consumer may use, the
	// default class first. At most 64. Empty offers no storage.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,5,rep,name=storageClasses"`
	// ingressClasses are the names of the IngressClasses that Ingresses of the consumer may use,
	// the default class first. At most 64. If empty, reflected Ingresses have no class, and get the
	// default IngressClass of the provider.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,6,rep,name=ingressClasses"`
	// loadBalancerClasses are the load balancer classes that Services of the consumer may use, the
	// default class first. At most 64. If empty, reflected Services have no class, and get the
	// default load balancer of the provider.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,7,rep,name=loadBalancerClasses"`
	// reflectedKinds are the additional kinds that the consumer may reflect to the provider, apart
	// from ConfigMaps, Secrets, Services and Ingresses. At most 32. Empty permits no additional
	// kind.
	// +optional
	// +listType=atomic
	ReflectedKinds []metav1.GroupVersionResource `json:"reflectedKinds,omitempty" protobuf:"bytes,8,rep,name=reflectedKinds"`
	// withdrawn ends the offer: the consumer drains and deletes the virtual nodes that it created
	// for the offer. The default is false.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,9,opt,name=withdrawn"`
	// storage limits the claims of the consumer in total: requests.storage in bytes,
	// persistentvolumeclaims, and <class>.storageclass.storage.k8s.io/requests.storage for one
	// StorageClass. Without requests.storage no storage is offered.
	// +optional
	Storage corev1.ResourceList `json:"storage,omitempty" protobuf:"bytes,10,rep,name=storage,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// externalVolumes are the volume types and CSI drivers that pods of the consumer may use
	// without a claim. Empty permits none.
	// +optional
	ExternalVolumes ExternalVolumes `json:"externalVolumes,omitzero" protobuf:"bytes,11,opt,name=externalVolumes"`
	// pods informs the consumer about the limits for its pods. Empty means that there are none. The
	// provider enforces the limits in its ForeignCluster and its installation, whatever the offer
	// states.
	// +optional
	Pods *PodPolicy `json:"pods,omitempty" protobuf:"bytes,12,opt,name=pods"`
}

// ExternalVolumes are volume types and CSI drivers that pods of a consumer may use without a claim.
// The volume source in a remote pod is the same as in the local pod.
type ExternalVolumes struct {
	// types are volume types, by their names in the volumes of a pod: fc, iscsi and nfs. Empty
	// permits none.
	// +optional
	// +listType=set
	Types []string `json:"types,omitempty" protobuf:"bytes,1,rep,name=types"`
	// csiDrivers are the names of CSI drivers for inline volumes. At most 32. Empty permits none.
	// +optional
	// +listType=set
	CSIDrivers []string `json:"csiDrivers,omitempty" protobuf:"bytes,2,rep,name=csiDrivers"`
}

// MaxOfferedNodes is the maximum number of nodes of an offer. The consumer runs a virtual kubelet
// for each node.
const MaxOfferedNodes = 32

// OfferedNode is the part of a node's resources that a provider offers to one consumer.
type OfferedNode struct {
	// name is a DNS label that identifies the node to the consumer. It is stable, does not reveal
	// the name of the node, and is different for each consumer.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// resources is the amount of each resource that pods on the virtual node may request in total.
	// All amounts are 0 while the node accepts no pods.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// labels are labels of the node. They are added to the virtual node and override spec.labels of
	// the offer. Pods of the virtual node run only on nodes with all of these labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
}

// ResourceOfferStatus is the decision of the consumer about an offer.
type ResourceOfferStatus struct {
	// phase is the state of the offer.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// conditions contain Accepted, which is True while the consumer accepts the offer, and False
	// while it refuses the offer or has not decided.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOfferList is a list of ResourceOffers.
type ResourceOfferList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ResourceOffers.
	Items []ResourceOffer `json:"items" protobuf:"bytes,2,rep,name=items"`
}
