// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingName is the only name a NamespaceOffloading can have.
const NamespaceOffloadingName = "offloading"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloading says which clusters its namespace extends to, under
// which name, and where the namespace's pods may run. It is always named
// "offloading".
type NamespaceOffloading struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceOffloadingSpec
	Status NamespaceOffloadingStatus
}

// NamespaceMappingStrategy says how twin namespaces are named.
type NamespaceMappingStrategy string

const (
	// DefaultName names the twin after the namespace, this cluster's name and
	// a short form of its id, so that it is unique.
	DefaultName NamespaceMappingStrategy = "DefaultName"
	// EnforceSameName gives the twin the name of the namespace.
	EnforceSameName NamespaceMappingStrategy = "EnforceSameName"
	// SelectedName gives the twin the name in remoteNamespaceName.
	SelectedName NamespaceMappingStrategy = "SelectedName"
)

// PodOffloadingStrategy says where the pods of a namespace may run.
type PodOffloadingStrategy string

const (
	// LocalAndRemote lets pods run here and on the selected clusters.
	LocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
	// Local keeps pods in this cluster.
	Local PodOffloadingStrategy = "Local"
	// Remote lets pods run on the selected clusters only.
	Remote PodOffloadingStrategy = "Remote"
)

// PlacementEnforcement says what happens to pods that run where their
// namespace no longer lets them.
type PlacementEnforcement string

const (
	// Warn leaves such pods where they are, and tells that they are there.
	Warn PlacementEnforcement = "Warn"
	// Evict evicts such pods as their PodDisruptionBudgets allow, so that
	// whoever owns them makes new ones where they may run.
	Evict PlacementEnforcement = "Evict"
)

// NamespaceOffloadingSpec is what the owner of a namespace wants.
type NamespaceOffloadingSpec struct {
	NamespaceMappingStrategy NamespaceMappingStrategy
	RemoteNamespaceName      string
	PodOffloadingStrategy    PodOffloadingStrategy
	ClusterSelector          corev1.NodeSelector
	Enforcement              PlacementEnforcement
	Volumes                  NamespaceVolumes
}

// UnoffloadPolicy is what happens to the data that a provider stores when the
// namespace is no longer offloaded to it: it is unoffloaded, the cluster is no longer
// selected, or the peering ends.
type UnoffloadPolicy string

const (
	// UnoffloadRefuse keeps the remote namespace, empty of pods, until its volumes are
	// moved, deleted or released.
	UnoffloadRefuse UnoffloadPolicy = "Refuse"
	// UnoffloadMove moves the data to this cluster first.
	UnoffloadMove UnoffloadPolicy = "Move"
	// UnoffloadRetain gives the volumes up and leaves them, with their data, to the
	// provider.
	UnoffloadRetain UnoffloadPolicy = "Retain"
	// UnoffloadDelete deletes the data.
	UnoffloadDelete UnoffloadPolicy = "Delete"
)

// NamespaceVolumes selects what happens to data that is stored on providers.
type NamespaceVolumes struct {
	OnUnoffload UnoffloadPolicy
}

// OffloadingPhase is how the extension of a namespace stands as a whole.
type OffloadingPhase string

const (
	// OffloadingReady means that every selected cluster has its twin.
	OffloadingReady OffloadingPhase = "Ready"
	// OffloadingInProgress means that twins are being made.
	OffloadingInProgress OffloadingPhase = "InProgress"
	// OffloadingNoClusterSelected means that no cluster matches the selector.
	OffloadingNoClusterSelected OffloadingPhase = "NoClusterSelected"
	// OffloadingSomeFailed means that some twins could not be made.
	OffloadingSomeFailed OffloadingPhase = "SomeFailed"
	// OffloadingAllFailed means that no twin could be made.
	OffloadingAllFailed OffloadingPhase = "AllFailed"
	// OffloadingTerminating means that the extension is being undone.
	OffloadingTerminating OffloadingPhase = "Terminating"
)

// Condition types of an offloaded namespace as a whole.
const (
	// ConditionPodsInPlace is False while pods run where the spec no longer lets
	// them, or, where the extension is being undone, at another cluster still.
	ConditionPodsInPlace = "PodsInPlace"
	// ConditionVolumesReleased is False while a cluster that the namespace is no longer
	// offloaded to stores data of its claims; its message names them.
	ConditionVolumesReleased = "VolumesReleased"
)

// Condition types of an offloaded namespace at one cluster.
const (
	// ConditionOffloadingRequired is True for a selected cluster; its reason is
	// ClusterSelected or ClusterNotSelected.
	ConditionOffloadingRequired = "OffloadingRequired"
)

// NamespaceOffloadingStatus is how the extension of a namespace stands.
type NamespaceOffloadingStatus struct {
	ObservedGeneration  int64
	Phase               OffloadingPhase
	RemoteNamespaceName string
	Clusters            []OffloadedCluster
	Conditions          []metav1.Condition
}

// OffloadedCluster is how an offloaded namespace stands at one cluster.
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

// Offload is the view of a NamespaceOffloading that the verb offload works on:
// POST extends the namespace, DELETE brings it home. It carries the name,
// namespace, uid and resourceVersion of its NamespaceOffloading.
type Offload struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NamespaceOffloadingSpec
	Status OffloadStatus
}

// OffloadStatus is how an offloaded namespace stands, as in the status of its
// NamespaceOffloading.
type OffloadStatus struct {
	NamespaceOffloadingStatus
	Plan *OffloadPlan
}
