// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequest is the request of a consumer for an identity at a provider.
type IdentityRequest struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   IdentityRequestSpec
	Status IdentityRequestStatus
}

// IdentityRequestSpec is the request of a consumer for an identity.
type IdentityRequestSpec struct {
	ClusterID   string
	ClusterName string
	Request     []byte
}

// Condition types of an IdentityRequest, in addition to ConditionAccepted; documented in v1alpha1.
const (
	ConditionIssued = "Issued"
)

// IdentityRequestStatus is the response of the provider to an IdentityRequest.
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
