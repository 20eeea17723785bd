// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PeeringToken is a provider's standing offer to be peered with: once, by one
// consumer, before it expires. POST to its subresource invitation returns
// what the consumer's administrator needs. Deleting it takes an unused
// invitation back.
type PeeringToken struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   PeeringTokenSpec
	Status PeeringTokenStatus
}

// PeeringTokenSpec says for whom and for how long an invitation is good. It
// cannot change once the token exists.
type PeeringTokenSpec struct {
	ConsumerClusterID string
	ExpirationSeconds *int64
	Mode              PeeringMode
}

// PeeringTokenStatus is what became of an invitation.
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

// Invitation is the answer to a POST on the invitation of a PeeringToken. It
// is shown to the one who asks and stored nowhere.
type Invitation struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Status InvitationStatus
}

// InvitationStatus is everything that the consumer's administrator needs.
type InvitationStatus struct {
	ClusterName    string
	ExpirationTime metav1.Time
	Peering        *Peering
	ForeignCluster *ForeignCluster
	Command        string
}
