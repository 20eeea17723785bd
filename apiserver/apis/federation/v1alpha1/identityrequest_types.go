// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequest is a consumer's request for a certificate at a provider,
// paid for with an invitation. Its name is that of the invitation's service
// account, so each invitation buys one; the same request again gets the same
// answer.
type IdentityRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is who asks, and for which key. Nothing but the key can change: a
	// consumer renews its identity by a POST to the subresource identity of
	// its ResourceRequest.
	Spec IdentityRequestSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the answer; only the provider's system writes it.
	// +optional
	Status IdentityRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// IdentityRequestSpec is who asks for an identity, and for which key.
type IdentityRequestSpec struct {
	// clusterID is the consumer's cluster id: the UID of its kube-system
	// namespace.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// clusterName is how the consumer calls itself. The provider calls it the
	// same, with a suffix if the name is taken.
	ClusterName string `json:"clusterName" protobuf:"bytes,2,opt,name=clusterName"`
	// request is a PEM encoded PKCS #10 certificate signing request of at most
	// 8 KiB. Its common name is the uid of the invitation's PeeringToken, its
	// only organisation liqo:peers, and it asks for no names or addresses.
	Request []byte `json:"request" protobuf:"bytes,3,opt,name=request"`
}

// Condition types of an IdentityRequest.
const (
	// ConditionIssued is True when the certificate is there, and False with a
	// reason when it was denied or could not be signed.
	ConditionIssued = "Issued"
)

// IdentityRequestStatus is the provider's answer to an IdentityRequest.
type IdentityRequestStatus struct {
	// certificate is the PEM encoded certificate chain.
	// +optional
	Certificate []byte `json:"certificate,omitempty" protobuf:"bytes,1,opt,name=certificate"`
	// serviceAccountName is the ServiceAccount in the tenant namespace that
	// the consumer is here, where the provider signs no certificates. Its first
	// token is asked for by the bearer of the invitation, or with the certificate
	// that the account takes the place of; every later one by the account itself.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty" protobuf:"bytes,2,opt,name=serviceAccountName"`
	// clusterID is the provider's cluster id.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,3,opt,name=clusterID"`
	// tenantNamespace is the namespace on the provider that is the consumer's.
	// +optional
	TenantNamespace string `json:"tenantNamespace,omitempty" protobuf:"bytes,4,opt,name=tenantNamespace"`
	// conditions say how the request stands: Issued.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequestList is a list of IdentityRequests.
type IdentityRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the requests.
	Items []IdentityRequest `json:"items" protobuf:"bytes,2,rep,name=items"`
}
