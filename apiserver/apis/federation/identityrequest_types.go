// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequest is a consumer's request for a certificate at a provider,
// paid for with an invitation. Its name is that of the invitation's service
// account, so each invitation buys one; the same request again gets the same
// answer.
type IdentityRequest struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   IdentityRequestSpec
	Status IdentityRequestStatus
}

// IdentityRequestSpec is who asks for an identity, and for which key.
type IdentityRequestSpec struct {
	ClusterID   string
	ClusterName string
	Request     []byte
}

// Condition types of an IdentityRequest.
const (
	// ConditionIssued is True when the certificate is there, and False with a
	// reason when it was denied or could not be signed.
	ConditionIssued = "Issued"
)

// IdentityRequestStatus is the provider's answer to an IdentityRequest.
type IdentityRequestStatus struct {
	Certificate        []byte
	ServiceAccountName string
	ClusterID          string
	TenantNamespace    string
	Conditions         []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequestList is a list of IdentityRequests.
type IdentityRequestList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []IdentityRequest
}
