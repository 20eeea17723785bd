// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceMap lists the remote namespaces that a consumer requests on a provider.
type NamespaceMap struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceMapSpec
	Status NamespaceMapStatus
}

// NamespaceMapSpec is the list of requested namespaces.
type NamespaceMapSpec struct {
	Namespaces []NamespaceMapping
}

// NamespaceMapping is one requested remote namespace.
type NamespaceMapping struct {
	Name       string
	RemoteName string
}

// NamespaceMappingPhase is the state of a remote namespace.
type NamespaceMappingPhase string

// Values of NamespaceMappingPhase, documented in v1alpha1.
const (
	NamespaceMappingReady       NamespaceMappingPhase = "Ready"
	NamespaceMappingTerminating NamespaceMappingPhase = "Terminating"
	NamespaceMappingConflict    NamespaceMappingPhase = "Conflict"
	NamespaceMappingRefused     NamespaceMappingPhase = "Refused"
	NamespaceMappingFailed      NamespaceMappingPhase = "Failed"
)

// NamespaceMapStatus is the state of the remote namespaces.
type NamespaceMapStatus struct {
	ObservedGeneration int64
	Namespaces         []NamespaceMappingStatus
}

// NamespaceMappingStatus is the state of one remote namespace.
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
