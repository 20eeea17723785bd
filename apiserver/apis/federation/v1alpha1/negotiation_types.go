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

// ResourceRequest is the request of a consumer for resources of a provider. The controllers of the
// consumer create it in the peer namespace and replicate it to the tenant namespace on the
// provider, and the controllers of the provider answer in the status.
type ResourceRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the consumer.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the request, written by the controllers of the consumer.
	// +optional
	Spec ResourceRequestSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the answer, written by the controllers of the provider.
	// +optional
	Status ResourceRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceRequestSpec is the request of a consumer.
type ResourceRequestSpec struct {
	// resources is the requested amount of each resource, from spec.resources of the
	// ForeignCluster. Empty requests all that the policy of the provider allows.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty" protobuf:"bytes,1,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// withdrawn ends the peering: the provider removes all workloads of the consumer, and finally
	// its identity.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,2,opt,name=withdrawn"`
	// apiVersions are the versions of this API that the consumer supports, in order of preference,
	// at most 32. Empty is v1alpha1.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,3,rep,name=apiVersions"`
	// features are the optional features that the consumer supports, at most 32.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,4,rep,name=features"`
}

// NegotiationPhase is the state of a resource request or offer.
// +enum
type NegotiationPhase string

const (
	// NegotiationPending means that it was not answered yet.
	NegotiationPending NegotiationPhase = "Pending"
	// NegotiationAccepted means that it was accepted.
	NegotiationAccepted NegotiationPhase = "Accepted"
	// NegotiationRefused means that it was refused.
	NegotiationRefused NegotiationPhase = "Refused"
	// NegotiationManualActionRequired means that an administrator has to decide.
	NegotiationManualActionRequired NegotiationPhase = "ManualActionRequired"
	// NegotiationWithdrawn means that the cluster that created it withdrew it, and the other one
	// has finished.
	NegotiationWithdrawn NegotiationPhase = "Withdrawn"
)

// ConditionAccepted is True while a resource request, resource offer, NetworkConfig or
// IdentityRequest is accepted, and False while it is refused or waits for a decision. For requests
// and offers of resources the reason is the phase; on the consumer it is Unknown while the provider
// reports a phase that the version of the consumer does not have.
const ConditionAccepted = "Accepted"

// ConditionWithinQuota is False while the consumer of a resource request uses more of a resource
// than its accepted offers have, for example after an offer was reduced: nothing is removed, and
// nothing more of it is admitted. Afterwards it is True. It does not exist before the first time.
const ConditionWithinQuota = "WithinQuota"

// ResourceRequestStatus is the answer of the provider to a resource request.
type ResourceRequestStatus struct {
	// phase is the state of the request.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// offerName is the name of the ResourceOffer in the same namespace that answers the request.
	// The controllers of the consumer create virtual nodes for it.
	// +optional
	OfferName string `json:"offerName,omitempty" protobuf:"bytes,3,opt,name=offerName"`
	// apiVersions are the versions of this API that the provider supports, in order of preference,
	// at most 32. Empty is v1alpha1.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty" protobuf:"bytes,4,rep,name=apiVersions"`
	// features are the optional features that the provider supports, at most 32.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// conditions are Accepted, which is True while the provider accepts the request, and
	// WithinQuota, which is False while the consumer uses more than its accepted offers have.
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

// ResourceOffer is the offer of resources of a provider to a consumer. The controllers of the
// provider, or an administrator, create it in the tenant namespace; it is replicated to the peer
// namespace on the consumer, whose controllers answer in the status. The sum of the accepted offers
// is the quota of the consumer.
type ResourceOffer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is a DNS label of at most 40 characters;
	// the controllers use the name of the provider.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the offer, written by the controllers or an administrator of the provider.
	Spec ResourceOfferSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the answer, written by the controllers of the consumer.
	// +optional
	Status ResourceOfferStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceOfferSpec is the offer of a provider.
type ResourceOfferSpec struct {
	// clusterID is the UID of the namespace kube-system of the provider. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// resources is the amount of each resource that the pods of the consumer may request in total,
	// at least one resource. A resource that no accepted offer names is not granted.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// nodes are the offered nodes of the provider, with shape PerNode: the consumer has a virtual
	// node for each. Their sum does not exceed resources. At most 32. Empty offers resources as a
	// whole.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []OfferedNode `json:"nodes,omitempty" protobuf:"bytes,3,rep,name=nodes"`
	// labels are added to the virtual nodes of the consumer.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,4,rep,name=labels"`
	// storageClasses are the names of the StorageClasses that claims of the consumer may use, the
	// default first. At most 64.
	// +optional
	// +listType=atomic
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,5,rep,name=storageClasses"`
	// ingressClasses are the names of the IngressClasses that Ingresses of the consumer may use,
	// the default first. At most 64. Empty leaves the class to the provider.
	// +optional
	// +listType=atomic
	IngressClasses []string `json:"ingressClasses,omitempty" protobuf:"bytes,6,rep,name=ingressClasses"`
	// loadBalancerClasses are the load balancer classes that Services of the consumer may use, the
	// default first. At most 64. Empty leaves the class to the provider.
	// +optional
	// +listType=atomic
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty" protobuf:"bytes,7,rep,name=loadBalancerClasses"`
	// reflectedKinds are the kinds that the consumer may reflect to the provider, in addition to
	// ConfigMaps, Secrets, Services and Ingresses. At most 32.
	// +optional
	// +listType=atomic
	ReflectedKinds []metav1.GroupVersionResource `json:"reflectedKinds,omitempty" protobuf:"bytes,8,rep,name=reflectedKinds"`
	// withdrawn ends the offer: the consumer drains and deletes the virtual nodes of it.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty" protobuf:"varint,9,opt,name=withdrawn"`
	// storage limits the claims of the consumer in total: requests.storage in bytes,
	// persistentvolumeclaims, and <class>.storageclass.storage.k8s.io/requests.storage for one
	// StorageClass. Without requests.storage no storage is offered.
	// +optional
	Storage corev1.ResourceList `json:"storage,omitempty" protobuf:"bytes,10,rep,name=storage,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// externalVolumes are the volume types and CSI drivers that pods of the consumer may use
	// without a claim.
	// +optional
	ExternalVolumes ExternalVolumes `json:"externalVolumes,omitzero" protobuf:"bytes,11,opt,name=externalVolumes"`
}

// ExternalVolumes are kinds of volumes that pods of consumers may use without a claim. Their source
// is not changed on the provider.
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
// for each.
const MaxOfferedNodes = 32

// OfferedNode is the part of one node of the provider that is offered to one consumer.
type OfferedNode struct {
	// name is a DNS label that identifies the node. It does not change, does not contain the name
	// of the node, and differs between consumers.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// resources is the amount of each resource that pods may request of the node. 0 while the node
	// accepts no pods.
	Resources corev1.ResourceList `json:"resources" protobuf:"bytes,2,rep,name=resources,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName"`
	// labels are labels of the node. They are added to the virtual node, with precedence over the
	// labels of the offer, and its pods run on nodes with the same labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
}

// ResourceOfferStatus is the answer of the consumer to an offer.
type ResourceOfferStatus struct {
	// phase is the state of the offer.
	// +optional
	Phase NegotiationPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=NegotiationPhase"`
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,2,opt,name=observedGeneration"`
	// conditions are Accepted, which is True while the consumer accepts the offer.
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
