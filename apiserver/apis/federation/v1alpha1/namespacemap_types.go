// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMap lists the remote namespaces that a consumer requests on a provider. The controllers
// of the consumer create it in the peer namespace and replicate it to the tenant namespace on the
// provider, whose controllers create the namespaces and report their state in the status.
type NamespaceMap struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the list of requested namespaces, written by the controllers of the consumer.
	// +optional
	Spec NamespaceMapSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the state of the namespaces, written by the controllers of the provider.
	// +optional
	Status NamespaceMapStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NamespaceMapSpec is the list of requested namespaces.
type NamespaceMapSpec struct {
	// namespaces are the requested remote namespaces, at most 1000. Removing an entry deletes the
	// remote namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceMapping `json:"namespaces,omitempty" protobuf:"bytes,1,rep,name=namespaces"`
}

// NamespaceMapping is one requested remote namespace.
type NamespaceMapping struct {
	// name is the name of the namespace on the consumer.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// remoteName is the name of the remote namespace.
	RemoteName string `json:"remoteName" protobuf:"bytes,2,opt,name=remoteName"`
}

// NamespaceMappingPhase is the state of a remote namespace.
// +enum
type NamespaceMappingPhase string

const (
	// NamespaceMappingReady means that the namespace exists, and that the consumer and its virtual
	// kubelets have access to it.
	NamespaceMappingReady NamespaceMappingPhase = "Ready"
	// NamespaceMappingTerminating means that the namespace is being deleted.
	NamespaceMappingTerminating NamespaceMappingPhase = "Terminating"
	// NamespaceMappingConflict means that the provider already has a namespace of this name, which was
	// not created for the consumer. The controllers do not change that namespace.
	NamespaceMappingConflict NamespaceMappingPhase = "Conflict"
	// NamespaceMappingRefused means that the provider does not permit a remote namespace of this
	// name.
	NamespaceMappingRefused NamespaceMappingPhase = "Refused"
	// NamespaceMappingFailed means that the namespace could not be created; the creation is
	// retried.
	NamespaceMappingFailed NamespaceMappingPhase = "Failed"
)

// NamespaceMapStatus is the state of the remote namespaces.
type NamespaceMapStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// namespaces are the remote namespaces, each with its state.
	// +optional
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceMappingStatus `json:"namespaces,omitempty" protobuf:"bytes,2,rep,name=namespaces"`
}

// NamespaceMappingStatus is the state of one remote namespace.
type NamespaceMappingStatus struct {
	// name is the name of the namespace on the consumer.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// remoteName is the name of the remote namespace.
	RemoteName string `json:"remoteName" protobuf:"bytes,2,opt,name=remoteName"`
	// phase is the state of the remote namespace.
	Phase NamespaceMappingPhase `json:"phase" protobuf:"bytes,3,opt,name=phase,casttype=NamespaceMappingPhase"`
	// message is the reason for the phase, and what to do. Empty with phase Ready.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,4,opt,name=message"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMapList is a list of NamespaceMaps.
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the NamespaceMaps.
	Items []NamespaceMap `json:"items" protobuf:"bytes,2,rep,name=items"`
}
