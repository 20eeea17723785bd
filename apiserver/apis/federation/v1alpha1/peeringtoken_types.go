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
// administrator of the provider creates it, and gets the token with a POST to the subresource
// invitation. Deleting a PeeringToken invalidates its token if no consumer has used it.
type PeeringToken struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Certificate requests of the consumer must have the uid
	// as their common name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec limits the use of the invitation, written by the administrator who creates the object.
	// It cannot change.
	// +optional
	Spec PeeringTokenSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status reports the use of the invitation, written by the controllers.
	// +optional
	Status PeeringTokenStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PeeringTokenSpec limits the use of an invitation. It cannot change.
type PeeringTokenSpec struct {
	// consumerClusterID is the UID of the namespace kube-system of the only cluster that may use
	// the invitation. Empty permits any cluster. A consumer that is already a peer, and has lost
	// its identity, needs an invitation with its ID in this field.
	// +optional
	ConsumerClusterID string `json:"consumerClusterID,omitempty" protobuf:"bytes,1,opt,name=consumerClusterID"`
	// expirationSeconds is the time, in seconds, from the creation of the object until the
	// invitation expires, 600 to 604800 (a week). The default is 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty" protobuf:"varint,2,opt,name=expirationSeconds"`
	// mode is the path of control plane traffic in the peering that the invitation establishes. The
	// default is OutOfBand.
	// +optional
	Mode PeeringMode `json:"mode,omitempty" protobuf:"bytes,3,opt,name=mode,casttype=PeeringMode"`
	// trust is spec.trust of the ForeignCluster that the provider creates for the consumer. Empty uses
	// the value policy.trust of the installation. It has no effect on an existing ForeignCluster.
	// +optional
	Trust PeeringTrust `json:"trust,omitempty" protobuf:"bytes,4,opt,name=trust,casttype=PeeringTrust"`
}

// PeeringTokenStatus reports the use of an invitation.
type PeeringTokenStatus struct {
	// used is true once the provider has accepted an IdentityRequest that a consumer created with
	// the invitation.
	// +optional
	Used bool `json:"used,omitempty" protobuf:"varint,1,opt,name=used"`
	// usedBy is the UID of the namespace kube-system of the consumer that used the invitation.
	// Empty while it is unused.
	// +optional
	UsedBy string `json:"usedBy,omitempty" protobuf:"bytes,2,opt,name=usedBy"`
	// gateway is the gateway of the provider, which the consumer needs for mode InBand. Until the
	// controllers have set it, a POST to the subresource invitation returns 429. Empty with mode
	// OutOfBand.
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
// responses. Each POST returns the same invitation with a new token. An Invitation is not stored.
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

// InvitationStatus is the content of an invitation, with which an administrator of the consumer
// establishes the peering. It contains a credential: store and transmit it like a password.
type InvitationStatus struct {
	// clusterName is the name that the provider presents, and the suggested name of its
	// ForeignCluster on the consumer.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// expirationTime is the time at which the token expires.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty" protobuf:"bytes,2,opt,name=expirationTime"`
	// peering is the body of the POST to the verb peer of the ForeignCluster. It contains the
	// token.
	// +optional
	Peering *Peering `json:"peering,omitempty" protobuf:"bytes,3,opt,name=peering"`
	// foreignCluster is the declarative alternative to the field peering: apply it together with a
	// Secret of type federation.liqo.io/invitation that contains the token and has the name in
	// spec.invitationSecretName.
	// +optional
	ForeignCluster *ForeignCluster `json:"foreignCluster,omitempty" protobuf:"bytes,4,opt,name=foreignCluster"`
	// command is a kubectl command that establishes the peering. An administrator runs it against
	// the consumer. It contains the token.
	// +optional
	Command string `json:"command,omitempty" protobuf:"bytes,5,opt,name=command"`
}
