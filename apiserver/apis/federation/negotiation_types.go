// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceRequest is what a consumer asks a provider for. The consumer writes
// it into its peer namespace; its copy in the tenant namespace on the provider
// is answered there.
type ResourceRequest struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ResourceRequestSpec
	Status ResourceRequestStatus
}

// ResourceRequestSpec is what a consumer asks for.
type ResourceRequestSpec struct {
	Resources   corev1.ResourceList
	Withdrawn   bool
	APIVersions []string
	Features    []string
}

// NegotiationPhase is how far a request or an offer has come.
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

// ResourceRequestStatus is the provider's answer to a request.
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

// ResourceOffer is what a provider grants. The provider writes it into the
// tenant namespace; its mirror in the consumer's peer namespace is accepted or
// refused there.
type ResourceOffer struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ResourceOfferSpec
	Status ResourceOfferStatus
}

// ResourceOfferSpec is what a provider grants.
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
}

// ExternalVolumes are volumes in the spec of a pod that no claim of the federation
// manages. They are passed to the provider as they are.
type ExternalVolumes struct {
	Types      []string
	CSIDrivers []string
}

// OfferedNode is what one node of the provider lends to one consumer.
type OfferedNode struct {
	Name      string
	Resources corev1.ResourceList
	Labels    map[string]string
}

// ResourceOfferStatus is the consumer's answer to an offer.
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
