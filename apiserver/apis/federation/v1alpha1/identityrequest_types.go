// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequest is the request of a consumer for an identity at a provider. The consumer creates
// it on the provider with the token of an invitation, and the controllers of the provider write the
// identity to the status. The name is the name of the ServiceAccount that the token belongs to, so
// each invitation issues one identity; creating the request again returns the same result. Deleting
// the object revokes the identity.
type IdentityRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the ServiceAccount that the
	// token of the invitation belongs to.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the request, written by the consumer. Only spec.request can change. An identity is
	// renewed with a POST to the subresource identity of the ResourceRequest.
	Spec IdentityRequestSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the issued identity or the reason for a refusal, written by the controllers of the
	// provider.
	// +optional
	Status IdentityRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// IdentityRequestSpec is the request of a consumer for an identity.
type IdentityRequestSpec struct {
	// clusterID is the UID of the namespace kube-system of the consumer. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// clusterName is the name that the consumer presents, a DNS label of at most 40 characters. The
	// provider gives the ForeignCluster of the consumer this name, with a suffix if the name is in
	// use. It cannot change.
	ClusterName string `json:"clusterName" protobuf:"bytes,2,opt,name=clusterName"`
	// request is a PEM encoded PKCS #10 certificate signing request of at most 8 KiB, with an ECDSA
	// key on P-256 or P-384, or an Ed25519 key. Its common name is the uid of the PeeringToken, its
	// only organization is liqo:peers, and it has no extensions.
	Request []byte `json:"request" protobuf:"bytes,3,opt,name=request"`
}

// Condition types of an IdentityRequest, in addition to ConditionAccepted.
const (
	// ConditionIssued is True once the certificate is issued, False if the
	// CertificateSigningRequest was denied or could not be signed, and Unknown until it is signed.
	ConditionIssued = "Issued"
)

// IdentityRequestStatus is the response of the provider to an IdentityRequest.
type IdentityRequestStatus struct {
	// certificate is the PEM encoded certificate chain of the identity. Empty before it is issued,
	// or if the identity is a ServiceAccount.
	// +optional
	Certificate []byte `json:"certificate,omitempty" protobuf:"bytes,1,opt,name=certificate"`
	// serviceAccountName is the name of the ServiceAccount in the tenant namespace that is the
	// identity of the consumer, if the provider signs no certificates. Empty otherwise. The
	// consumer requests tokens of the ServiceAccount with the TokenRequest API: the first one with
	// the token of its invitation or with its previous identity, and each further one with the
	// current token.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty" protobuf:"bytes,2,opt,name=serviceAccountName"`
	// clusterID is the UID of the namespace kube-system of the provider. Empty before the request
	// is accepted.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,3,opt,name=clusterID"`
	// tenantNamespace is the namespace on the provider in which the consumer writes its requests.
	// Empty before the request is accepted.
	// +optional
	TenantNamespace string `json:"tenantNamespace,omitempty" protobuf:"bytes,4,opt,name=tenantNamespace"`
	// conditions are Accepted, which is True if the provider admits the consumer, and Issued, which
	// is True once the certificate is issued.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IdentityRequestList is a list of IdentityRequests.
type IdentityRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the IdentityRequests.
	Items []IdentityRequest `json:"items" protobuf:"bytes,2,rep,name=items"`
}
