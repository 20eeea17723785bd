// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingName is the name of each NamespaceOffloading.
const NamespaceOffloadingName = "offloading"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloading offloads its namespace: it selects the providers that get a remote namespace,
// and the nodes that pods of the namespace may run on.
type NamespaceOffloading struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceOffloadingSpec
	Status NamespaceOffloadingStatus
}

// NamespaceMappingStrategy selects the names of remote namespaces.
type NamespaceMappingStrategy string

// Values of NamespaceMappingStrategy, documented in v1alpha1.
const (
	DefaultName     NamespaceMappingStrategy = "DefaultName"
	EnforceSameName NamespaceMappingStrategy = "EnforceSameName"
	SelectedName    NamespaceMappingStrategy = "SelectedName"
)

// PodOffloadingStrategy selects the nodes that pods of a namespace may run on.
type PodOffloadingStrategy string

// Values of PodOffloadingStrategy, documented in v1alpha1.
const (
	LocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
	Local          PodOffloadingStrategy = "Local"
	Remote         PodOffloadingStrategy = "Remote"
)

// PlacementEnforcement determines what happens to pods that run on a node which their
// NamespaceOffloading does not permit.
type PlacementEnforcement string

// Values of PlacementEnforcement, documented in v1alpha1.
const (
	Warn  PlacementEnforcement = "Warn"
	Evict PlacementEnforcement = "Evict"
)

// NamespaceOffloadingSpec is the desired state of an offloaded namespace.
type NamespaceOffloadingSpec struct {
	NamespaceMappingStrategy NamespaceMappingStrategy
	RemoteNamespaceName      string
	PodOffloadingStrategy    PodOffloadingStrategy
	ClusterSelector          corev1.NodeSelector
	Enforcement              PlacementEnforcement
	Volumes                  NamespaceVolumes
}

// UnoffloadPolicy determines what happens to data on a provider when the namespace is unoffloaded,
// the provider is no longer selected, or the peering ends.
type UnoffloadPolicy string

// Values of UnoffloadPolicy, documented in v1alpha1.
const (
	UnoffloadRefuse UnoffloadPolicy = "Refuse"
	UnoffloadMove   UnoffloadPolicy = "Move"
	UnoffloadRetain UnoffloadPolicy = "Retain"
	UnoffloadDelete UnoffloadPolicy = "Delete"
)

// NamespaceVolumes determines what happens to data of a namespace that providers store.
type NamespaceVolumes struct {
	OnUnoffload UnoffloadPolicy
}

// OffloadingPhase is the state of an offloaded namespace.
type OffloadingPhase string

// Values of OffloadingPhase, documented in v1alpha1.
const (
	OffloadingReady             OffloadingPhase = "Ready"
	OffloadingInProgress        OffloadingPhase = "InProgress"
	OffloadingNoClusterSelected OffloadingPhase = "NoClusterSelected"
	OffloadingSomeFailed        OffloadingPhase = "SomeFailed"
	OffloadingAllFailed         OffloadingPhase = "AllFailed"
	OffloadingTerminating       OffloadingPhase = "Terminating"
)

// Condition types of a NamespaceOffloading, documented in v1alpha1.
const (
	ConditionPodsInPlace     = "PodsInPlace"
	ConditionVolumesReleased = "VolumesReleased"
)

// Condition types of an OffloadedCluster, in addition to ConditionReady; documented in v1alpha1.
const (
	ConditionOffloadingRequired = "OffloadingRequired"
)

// NamespaceOffloadingStatus is the observed state of an offloaded namespace.
type NamespaceOffloadingStatus struct {
	ObservedGeneration  int64
	Phase               OffloadingPhase
	RemoteNamespaceName string
	Clusters            []OffloadedCluster
	Conditions          []metav1.Condition
}

// OffloadedCluster is the state of an offloaded namespace on one provider.
type OffloadedCluster struct {
	Name       string
	Conditions []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloadingList is a list of NamespaceOffloadings.
type NamespaceOffloadingList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []NamespaceOffloading
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Offload is the body of requests to the verb offload of a NamespaceOffloading, and of their
// responses.
type Offload struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceOffloadingSpec
	Status OffloadStatus
}

// OffloadStatus is the observed state of an offloaded namespace, and the plan of a dry run.
type OffloadStatus struct {
	NamespaceOffloadingStatus
	Plan *OffloadPlan
}
