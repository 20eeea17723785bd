// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringToken is an invitation of a provider: one consumer can use it once, before it expires.
type PeeringToken struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   PeeringTokenSpec
	Status PeeringTokenStatus
}

// PeeringTokenSpec limits the use of an invitation.
type PeeringTokenSpec struct {
	ConsumerClusterID string
	ExpirationSeconds *int64
	Mode              PeeringMode
	Trust             PeeringTrust
}

// PeeringTokenStatus reports the use of an invitation.
type PeeringTokenStatus struct {
	Used    bool
	UsedBy  string
	Gateway *PeeringGateway
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringTokenList is a list of PeeringTokens.
type PeeringTokenList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []PeeringToken
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Invitation is the body of requests to the subresource invitation of a PeeringToken, and of their
// responses.
type Invitation struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Status InvitationStatus
}

// InvitationStatus is the content of an invitation, with which an administrator of the consumer
// establishes the peering.
type InvitationStatus struct {
	ClusterName    string
	ExpirationTime metav1.Time
	Peering        *Peering
	ForeignCluster *ForeignCluster
	Command        string
}
