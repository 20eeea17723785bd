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

// ResourceRequest is what a consumer asks a provider for. The consumer writes
// it into its peer namespace; its copy in the tenant namespace on the provider
// is answered there.
type ResourceRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is asked for.
	// +optional
	Spec ResourceRequestSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the provider's answer.
	// +optional
	Status ResourceRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceRequestSpec is what a consumer asks for.
type ResourceRequestSpec struct {
	// resources is how much is wanted; empty asks for whatever the provider is
	// willing to lend.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,1,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// withdrawn takes the request back and ends the peering: the provider
	// removes everything of this consumer's, its access last.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,2,opt,name=withdrawn"`
	// apiVersions are the versions of this API that the consumer speaks, the
	// best first. Empty means v1alpha1 alone.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,3,rep,name=apiVersions"`
	// features are what the consumer can do beyond the first version.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,4,rep,name=features"`
}

// NegotiationPhase is how far a request or an offer has come.
// +enum
type NegotiationPhase string

const (
	// NegotiationPending means that it has not been answered yet.
	NegotiationPending NegotiationPhase = "Pending"
	// NegotiationAccepted means that it was accepted.
	NegotiationAccepted NegotiationPhase = "Accepted"
	// NegotiationRefused means that it was refused.
	NegotiationRefused NegotiationPhase = "Refused"
	// NegotiationManualActionRequired means that an administrator has to
	// decide.
	NegotiationManualActionRequired NegotiationPhase = "ManualActionRequired"
	// NegotiationWithdrawn means that the one who made it takes it back.
	NegotiationWithdrawn NegotiationPhase = "Withdrawn"
)

// ConditionAccepted is True while a request or an offer is accepted; its
// reason is the phase and its message says why.
const ConditionAccepted = "Accepted"

// ConditionWithinGrant is, on a request, False while what the consumer runs
// exceeds what it is granted, as after an offer was lowered: nothing is ended,
// and nothing more is admitted of what is short. It is there once that happened.
const ConditionWithinGrant = "WithinGrant"

// ResourceRequestStatus is the provider's answer to a request.
type ResourceRequestStatus struct {
	// phase is Pending, Accepted, Refused, ManualActionRequired or Withdrawn.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// offerName is the ResourceOffer in the same namespace that answers it.
	// +optional
	OfferName string `json:"offerName,omitempty" protobuf:"bytes,3,opt,name=offerName"`
	// apiVersions are the versions of this API that the provider speaks, the
	// best first. Empty means v1alpha1 alone.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,4,rep,name=apiVersions"`
	// features are what the provider can do beyond the first version.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// conditions say why: Accepted; and WithinGrant, once more ran than was
	// granted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,6,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequestList is a list of ResourceRequests.
type ResourceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the requests.
	Items []ResourceRequest `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOffer is what a provider grants. The provider writes it into the
// tenant namespace; its mirror in the consumer's peer namespace is accepted or
// refused there.
type ResourceOffer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is granted.
	Spec ResourceOfferSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the consumer's answer.
	// +optional
	Status ResourceOfferStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceOfferSpec is what a provider grants.
type ResourceOfferSpec struct {
	// clusterID is the provider's cluster id.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// resources bound what the consumer's pods may request here in all.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// nodes are the resources by the nodes that have them, where the provider
	// offers its nodes one by one: the consumer makes a virtual node of each.
	// Together they have no more than resources. Empty offers the resources as a
	// whole. At most 32.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []OfferedNode `json:"nodes,omitempty" protobuf:"bytes,3,rep,name=nodes"`
	// labels are the provider's own, for the consumer's virtual nodes: where
	// it is, what it is made of.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,4,rep,name=labels"`
	// storageClasses, ingressClasses and loadBalancerClasses are what the
	// consumer's objects may name here; the first of each is the default.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,5,rep,name=storageClasses"`
	// ingressClasses are the ingress classes that may be named here.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,6,rep,name=ingressClasses"`
	// loadBalancerClasses are the load balancer classes that may be named here.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,7,rep,name=loadBalancerClasses"`
	// reflectedKinds are the kinds that the consumer may copy into its
	// namespaces here, beside ConfigMaps, Secrets, Services and Ingresses. At
	// most 32.
	// +optional
	// +listType=atomic
	ReflectedKinds []metav1.GroupVersionResource `json:"reflectedKinds,omitempty" protobuf:"bytes,8,rep,name=reflectedKinds"`
	// withdrawn takes the offer back: the consumer's pods go home.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,9,opt,name=withdrawn"`
	// storage bounds the claims of the consumer in all: requests.storage in bytes,
	// persistentvolumeclaims, and <class>.storageclass.storage.k8s.io/requests.storage
	// for one storage class. Without requests.storage no storage is offered.
	// +optional
	Storage corev1.ResourceList `json:"storage,omitempty" protobuf:"bytes,10,rep,name=storage,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// externalVolumes are the volumes that the consumer's pods may mount without a
	// claim, which the provider's storage systems serve.
	// +optional
	ExternalVolumes ExternalVolumes `json:"externalVolumes,omitzero" protobuf:"bytes,11,opt,name=externalVolumes"`
}

// ExternalVolumes are volumes in the spec of a pod that no claim of the federation
// manages. They are passed to the provider as they are.
type ExternalVolumes struct {
	// types are volume types as they are named in a pod's volumes, for example nfs or
	// iscsi. hostPath and local are never allowed.
	// +optional
	// +listType=set
	Types []string `json:"types,omitempty" protobuf:"bytes,1,rep,name=types"`
	// csiDrivers are the names of CSI drivers that inline volumes may use.
	// +optional
	// +listType=set
	CSIDrivers []string `json:"csiDrivers,omitempty" protobuf:"bytes,2,rep,name=csiDrivers"`
}

// MaxOfferedNodes bounds the nodes of an offer: each costs the consumer a
// virtual kubelet.
const MaxOfferedNodes = 32

// OfferedNode is what one node of the provider lends to one consumer.
type OfferedNode struct {
	// name is the same for as long as the provider has the node, tells nothing
	// about it, and differs from consumer to consumer. It is a DNS label.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// resources are what pods may request of the node. They are 0 while it takes
	// no work.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// labels are those of the node that the provider tells, beside the labels of
	// the offer and before these. Pods of the virtual node run on nodes that have
	// them.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
}

// ResourceOfferStatus is the consumer's answer to an offer.
type ResourceOfferStatus struct {
	// phase is Pending, Accepted, Refused, ManualActionRequired or Withdrawn.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// conditions say why: Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOfferList is a list of ResourceOffers.
type ResourceOfferList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the offers.
	Items []ResourceOffer `json:"items" protobuf:"bytes,2,rep,name=items"`
}
