// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMap lists the namespaces that a consumer wants on one provider, and
// what the provider made of it. The consumer writes it into its peer
// namespace; its copy in the tenant namespace is answered there.
type NamespaceMap struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceMapSpec
	Status NamespaceMapStatus
}

// NamespaceMapSpec is what a consumer wants.
type NamespaceMapSpec struct {
	Namespaces []NamespaceMapping
}

// NamespaceMapping is one wanted twin namespace.
type NamespaceMapping struct {
	Name       string
	RemoteName string
}

// NamespaceMappingPhase is how one twin namespace stands.
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
	ObservedGeneration int64
	Namespaces         []NamespaceMappingStatus
}

// NamespaceMappingStatus is how one twin namespace stands.
type NamespaceMappingStatus struct {
	Name       string
	RemoteName string
	Phase      NamespaceMappingPhase
	Message    string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMapList is a list of NamespaceMaps.
type NamespaceMapList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []NamespaceMap
}
