// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingName is the only name a NamespaceOffloading can have.
const NamespaceOffloadingName = "offloading"

// +genclient
// +genclient:method=CreateOffload,verb=create,subresource=offload,input=Offload,result=Offload
// +genclient:method=GetOffload,verb=get,subresource=offload,result=Offload
// +genclient:method=UpdateOffload,verb=update,subresource=offload,input=Offload,result=Offload
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloading says which clusters its namespace extends to, under
// which name, and where the namespace's pods may run. It is always named
// "offloading".
type NamespaceOffloading struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what the owner of the namespace wants.
	// +optional
	Spec NamespaceOffloadingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is how the extension stands; only the system writes it.
	// +optional
	Status NamespaceOffloadingStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NamespaceMappingStrategy says how twin namespaces are named.
// +enum
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
// +enum
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
// +enum
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
	// namespaceMappingStrategy says how the twin namespaces are named:
	// DefaultName (the default), EnforceSameName or SelectedName. It cannot
	// change.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty" protobuf:"bytes,1,opt,name=namespaceMappingStrategy,casttype=NamespaceMappingStrategy"`
	// remoteNamespaceName is the name of the twin namespaces when
	// namespaceMappingStrategy is SelectedName, and empty otherwise. It cannot
	// change.
	// +optional
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty" protobuf:"bytes,2,opt,name=remoteNamespaceName"`
	// podOffloadingStrategy says where pods may run: LocalAndRemote (the
	// default), Local or Remote.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty" protobuf:"bytes,3,opt,name=podOffloadingStrategy,casttype=PodOffloadingStrategy"`
	// clusterSelector chooses clusters by the labels of their virtual nodes.
	// A cluster is chosen when any term matches; without terms, all are.
	// +optional
	ClusterSelector corev1.NodeSelector `json:"clusterSelector,omitzero" protobuf:"bytes,4,opt,name=clusterSelector"`
	// enforcement says what happens to pods that run where podOffloadingStrategy
	// or clusterSelector no longer lets them: Warn (the default) leaves them
	// there, and the condition PodsInPlace counts them; Evict evicts them as
	// their PodDisruptionBudgets allow. Pods of DaemonSets and static pods stay
	// in either case.
	// +optional
	Enforcement PlacementEnforcement `json:"enforcement,omitempty" protobuf:"bytes,5,opt,name=enforcement,casttype=PlacementEnforcement"`
	// volumes selects what happens to data that is stored on providers.
	// +optional
	Volumes NamespaceVolumes `json:"volumes,omitzero" protobuf:"bytes,6,opt,name=volumes"`
}

// UnoffloadPolicy is what happens to the data that a provider stores when the
// namespace is no longer offloaded to it: it is unoffloaded, the cluster is no longer
// selected, or the peering ends.
// +enum
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
	// onUnoffload is what happens to data on a provider that the namespace is no longer
	// offloaded to, or whose peering ends: Refuse (the default), Move, Retain or Delete.
	// +optional
	OnUnoffload UnoffloadPolicy `json:"onUnoffload,omitempty" protobuf:"bytes,1,opt,name=onUnoffload,casttype=UnoffloadPolicy"`
}

// OffloadingPhase is how the extension of a namespace stands as a whole.
// +enum
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
	// observedGeneration is the generation of the spec that this status
	// answers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// phase is Ready, InProgress, NoClusterSelected, SomeFailed, AllFailed or
	// Terminating.
	// +optional
	Phase OffloadingPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=OffloadingPhase"`
	// remoteNamespaceName is the name of the twins.
	// +optional
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty" protobuf:"bytes,3,opt,name=remoteNamespaceName"`
	// clusters tells for each foreign cluster how the namespace stands there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []OffloadedCluster `json:"clusters,omitempty" protobuf:"bytes,4,rep,name=clusters"`
	// conditions are PodsInPlace, once the pods of the namespace are known, and
	// VolumesReleased, once a cluster was given up that stores data of its claims.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// OffloadedCluster is how an offloaded namespace stands at one cluster.
type OffloadedCluster struct {
	// name is the name of the ForeignCluster.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// conditions are OffloadingRequired and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,2,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloadingList is a list of NamespaceOffloadings.
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the offloadings.
	Items []NamespaceOffloading `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Offload is the view of a NamespaceOffloading that the verb offload works on:
// POST extends the namespace, DELETE brings it home. It carries the name,
// namespace, uid and resourceVersion of its NamespaceOffloading.
type Offload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is that of the NamespaceOffloading.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is wanted, as in the NamespaceOffloading.
	// +optional
	Spec NamespaceOffloadingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is how it stands, as in the NamespaceOffloading.
	// +optional
	Status OffloadStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// OffloadStatus is how an offloaded namespace stands, as in the status of its
// NamespaceOffloading.
type OffloadStatus struct {
	NamespaceOffloadingStatus `json:",inline" protobuf:"bytes,1,opt,name=namespaceOffloadingStatus"`
	// plan is what the request would lead to, in answers to dryRun=All only.
	// +optional
	Plan *OffloadPlan `json:"plan,omitempty" protobuf:"bytes,2,opt,name=plan"`
}
