// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMap lists the namespaces that a consumer wants on one provider, and
// what the provider made of it. The consumer writes it into its peer
// namespace; its copy in the tenant namespace is answered there.
type NamespaceMap struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is wanted.
	// +optional
	Spec NamespaceMapSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is what is there.
	// +optional
	Status NamespaceMapStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NamespaceMapSpec is what a consumer wants.
type NamespaceMapSpec struct {
	// namespaces are the wanted twins, at most 1000.
	// +optional
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceMapping `json:"namespaces,omitempty" protobuf:"bytes,1,rep,name=namespaces"`
}

// NamespaceMapping is one wanted twin namespace.
type NamespaceMapping struct {
	// name is the namespace on the consumer.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// remoteName is the name of its twin on the provider.
	RemoteName string `json:"remoteName" protobuf:"bytes,2,opt,name=remoteName"`
}

// NamespaceMappingPhase is how one twin namespace stands.
// +enum
type NamespaceMappingPhase string

const (
	// NamespaceMappingReady means that the twin is there, with its roles.
	NamespaceMappingReady NamespaceMappingPhase = "Ready"
	// NamespaceMappingTerminating means that the twin is going.
	NamespaceMappingTerminating NamespaceMappingPhase = "Terminating"
	// NamespaceMappingConflict means that the provider has a namespace of that
	// name that is not this consumer's twin; it is left alone.
	NamespaceMappingConflict NamespaceMappingPhase = "Conflict"
	// NamespaceMappingRefused means that the provider's policy does not allow
	// the name.
	NamespaceMappingRefused NamespaceMappingPhase = "Refused"
	// NamespaceMappingFailed means that the twin could not be made; it is tried
	// again.
	NamespaceMappingFailed NamespaceMappingPhase = "Failed"
)

// NamespaceMapStatus is what the provider made of a NamespaceMap.
type NamespaceMapStatus struct {
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// namespaces tells for each twin how it stands.
	// +optional
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceMappingStatus `json:"namespaces,omitempty" protobuf:"bytes,2,rep,name=namespaces"`
}

// NamespaceMappingStatus is how one twin namespace stands.
type NamespaceMappingStatus struct {
	// name is the namespace on the consumer.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// remoteName is the name of its twin on the provider.
	RemoteName string `json:"remoteName" protobuf:"bytes,2,opt,name=remoteName"`
	// phase is Ready, Terminating, Conflict, Refused or Failed.
	Phase NamespaceMappingPhase `json:"phase" protobuf:"bytes,3,opt,name=phase,casttype=NamespaceMappingPhase"`
	// message says why, and what to do.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,4,opt,name=message"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMapList is a list of NamespaceMaps.
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the maps.
	Items []NamespaceMap `json:"items" protobuf:"bytes,2,rep,name=items"`
}
