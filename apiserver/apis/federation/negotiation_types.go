// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequest states which resources a consumer requests from a provider.
type ResourceRequest struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ResourceRequestSpec
	Status ResourceRequestStatus
}

// ResourceRequestSpec is the request of a consumer.
type ResourceRequestSpec struct {
	Resources   corev1.ResourceList
	Withdrawn   bool
	APIVersions []string
	Features    []string
}

// NegotiationPhase is the state of a resource request or offer.
type NegotiationPhase string

// Values of NegotiationPhase, documented in v1alpha1.
const (
	NegotiationPending              NegotiationPhase = "Pending"
	NegotiationAccepted             NegotiationPhase = "Accepted"
	NegotiationRefused              NegotiationPhase = "Refused"
	NegotiationManualActionRequired NegotiationPhase = "ManualActionRequired"
	NegotiationWithdrawn            NegotiationPhase = "Withdrawn"
)

// ConditionAccepted is True while a resource request, resource offer, NetworkConfig or
// IdentityRequest is accepted, and False while it is refused or waits for a decision.
const ConditionAccepted = "Accepted"

// ResourceRequestStatus is the decision of the provider about a resource request.
type ResourceRequestStatus struct {
	Phase              NegotiationPhase
	ObservedGeneration int64
	OfferName          string
	APIVersions        []string
	Features           []string
	Conditions         []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequestList is a list of ResourceRequests.
type ResourceRequestList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ResourceRequest
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOffer states which resources a provider offers to a consumer.
type ResourceOffer struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ResourceOfferSpec
	Status ResourceOfferStatus
}

// ResourceOfferSpec is the content of an offer.
type ResourceOfferSpec struct {
	ClusterID           string
	Resources           corev1.ResourceList
	Nodes               []OfferedNode
	Labels              map[string]string
	StorageClasses      []string
	IngressClasses      []string
	LoadBalancerClasses []string
	ReflectedKinds      []metav1.GroupVersionResource
	Withdrawn           bool
	Storage             corev1.ResourceList
	ExternalVolumes     ExternalVolumes
	Pods                *PodPolicy
}

// ExternalVolumes are volume types and CSI drivers that pods of a consumer may use without a claim.
type ExternalVolumes struct {
	Types      []string
	CSIDrivers []string
}

// OfferedNode is the part of a node's resources that a provider offers to one consumer.
type OfferedNode struct {
	Name      string
	Resources corev1.ResourceList
	Labels    map[string]string
}

// ResourceOfferStatus is the decision of the consumer about an offer.
type ResourceOfferStatus struct {
	Phase              NegotiationPhase
	ObservedGeneration int64
	Conditions         []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceOfferList is a list of ResourceOffers.
type ResourceOfferList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ResourceOffer
}
