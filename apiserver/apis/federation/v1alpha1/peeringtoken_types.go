// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:method=CreateInvitation,verb=create,subresource=invitation,input=Invitation,result=Invitation
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringToken is a provider's standing offer to be peered with: once, by one
// consumer, before it expires. POST to its subresource invitation returns
// what the consumer's administrator needs. Deleting it takes an unused
// invitation back.
type PeeringToken struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The uid becomes the identity
	// of the peering that the token leads to.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is offered to whom.
	// +optional
	Spec PeeringTokenSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is what became of it; only the system writes it.
	// +optional
	Status PeeringTokenStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringTokenSpec says for whom and for how long an invitation is good. It
// cannot change once the token exists.
type PeeringTokenSpec struct {
	// consumerClusterID binds the invitation to one consumer. Empty lets
	// whoever holds it first use it.
	// +optional
	ConsumerClusterID string `json:"consumerClusterID,omitempty" protobuf:"bytes,1,opt,name=consumerClusterID"`
	// expirationSeconds is how long the invitation is good for, counted from
	// the creation of the token: 600 (ten minutes) to 604800 (a week),
	// 3600 by default.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty" protobuf:"varint,2,opt,name=expirationSeconds"`
	// mode is OutOfBand (the default), where the consumer reaches this cluster's
	// API server from outside, or InBand, where it does by the tunnel between the
	// gateways.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,3,opt,name=mode,casttype=PeeringMode"`
}

// PeeringTokenStatus is what became of an invitation.
type PeeringTokenStatus struct {
	// used is true once a consumer's identity was accepted for it.
	// +optional
	Used bool `json:"used,omitempty" protobuf:"varint,1,opt,name=used"`
	// usedBy is the cluster id of that consumer.
	// +optional
	UsedBy string `json:"usedBy,omitempty" protobuf:"bytes,2,opt,name=usedBy"`
	// gateway is this cluster's own, as the consumer has to know it, where mode is
	// InBand: without it there is no invitation yet.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,3,opt,name=gateway"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringTokenList is a list of PeeringTokens.
type PeeringTokenList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the tokens.
	Items []PeeringToken `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Invitation is the answer to a POST on the invitation of a PeeringToken. It
// is shown to the one who asks and stored nowhere.
type Invitation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata carries the name of the PeeringToken.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// status is the invitation; a request leaves it empty.
	// +optional
	Status InvitationStatus `json:"status,omitempty" protobuf:"bytes,2,opt,name=status"`
}

// InvitationStatus is everything that the consumer's administrator needs.
type InvitationStatus struct {
	// clusterName is how the provider calls itself; use it as the name of the
	// ForeignCluster unless you have a better one.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// expirationTime is when the invitation ends.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty" protobuf:"bytes,2,opt,name=expirationTime"`
	// peering is what to POST to the verb peer of that ForeignCluster. It
	// holds the token: keep it as you keep a password.
	// +optional
	Peering *Peering `json:"peering,omitempty" protobuf:"bytes,3,opt,name=peering"`
	// foreignCluster is the declarative twin: apply it beside a Secret of the
	// name in its invitationSecretName that holds the token.
	// +optional
	ForeignCluster *ForeignCluster `json:"foreignCluster,omitempty" protobuf:"bytes,4,opt,name=foreignCluster"`
	// command is the one line that peers, to be run against the consumer.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,5,opt,name=command"`
}
