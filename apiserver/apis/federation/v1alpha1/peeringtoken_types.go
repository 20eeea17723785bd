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

// PeeringToken is an invitation of a provider: one consumer can use it once, before it expires. An
// administrator of the provider creates it, and requests its secret part with a POST to the
// subresource invitation. Deleting it invalidates an unused invitation.
type PeeringToken struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The uid identifies the peering that results from
	// the invitation.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec limits the use of the invitation. It cannot change.
	// +optional
	Spec PeeringTokenSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status reports the use of the invitation, written by the controllers.
	// +optional
	Status PeeringTokenStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringTokenSpec limits the use of an invitation. It cannot change.
type PeeringTokenSpec struct {
	// consumerClusterID is the UID of the namespace kube-system of the only cluster that may use
	// the invitation. Empty permits any cluster. A peer that lost its identity can only use an
	// invitation with its own ID.
	// +optional
	ConsumerClusterID string `json:"consumerClusterID,omitempty" protobuf:"bytes,1,opt,name=consumerClusterID"`
	// expirationSeconds is the time, in seconds, from the creation of the object until the
	// invitation expires, 600 to 604800 (a week). The default is 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty" protobuf:"varint,2,opt,name=expirationSeconds"`
	// mode is the path of control plane traffic that the invitation sets up. The default is
	// OutOfBand.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,3,opt,name=mode,casttype=PeeringMode"`
}

// PeeringTokenStatus reports the use of an invitation.
type PeeringTokenStatus struct {
	// used is true once the request of a consumer for an identity was accepted with the invitation.
	// +optional
	Used bool `json:"used,omitempty" protobuf:"varint,1,opt,name=used"`
	// usedBy is the UID of the namespace kube-system of that consumer.
	// +optional
	UsedBy string `json:"usedBy,omitempty" protobuf:"bytes,2,opt,name=usedBy"`
	// gateway is the gateway of the provider, which the consumer needs. It is set if mode is
	// InBand; requests for the invitation are answered with 429 before.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,3,opt,name=gateway"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringTokenList is a list of PeeringTokens.
type PeeringTokenList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the PeeringTokens.
	Items []PeeringToken `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Invitation is the body of requests to the subresource invitation of a PeeringToken, and of their
// responses. Each POST returns the same invitation with a new token. It is not stored.
type Invitation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the name, uid and resourceVersion of the PeeringToken. In a request, uid and
	// resourceVersion are preconditions.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// status is the invitation, set in responses only.
	// +optional
	Status InvitationStatus `json:"status,omitempty" protobuf:"bytes,2,opt,name=status"`
}

// InvitationStatus is what an administrator of the consumer needs. It contains a credential: store
// and transmit it like a password.
type InvitationStatus struct {
	// clusterName is the name that the provider presents, the suggested name of the ForeignCluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// expirationTime is the time at which the token expires.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty" protobuf:"bytes,2,opt,name=expirationTime"`
	// peering is the body of the POST to the verb peer of the ForeignCluster. It contains the
	// token.
	// +optional
	Peering *Peering `json:"peering,omitempty" protobuf:"bytes,3,opt,name=peering"`
	// foreignCluster is the same in declarative form: apply it together with a Secret of the name
	// in its spec.invitationSecretName, which contains the token.
	// +optional
	ForeignCluster *ForeignCluster `json:"foreignCluster,omitempty" protobuf:"bytes,4,opt,name=foreignCluster"`
	// command is a kubectl command that peers, to be run with the credentials of the consumer. It
	// contains the token.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,5,opt,name=command"`
}
