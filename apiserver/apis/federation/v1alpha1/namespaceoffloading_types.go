// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingName is the name of each NamespaceOffloading.
const NamespaceOffloadingName = "offloading"

// +genclient
// +genclient:method=CreateOffload,verb=create,subresource=offload,input=Offload,result=Offload
// +genclient:method=GetOffload,verb=get,subresource=offload,result=Offload
// +genclient:method=UpdateOffload,verb=update,subresource=offload,input=Offload,result=Offload
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloading offloads its namespace: it selects the providers that get a remote namespace,
// and the nodes that pods of the namespace may run on. A user with the role edit or admin in the
// namespace writes the spec, directly or by the verb offload, and the controllers write the status.
// A namespace has at most one. Deleting it unoffloads the namespace.
type NamespaceOffloading struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is offloading.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired state, written by the owner of the namespace.
	// +optional
	Spec NamespaceOffloadingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state, written by the controllers.
	// +optional
	Status NamespaceOffloadingStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NamespaceMappingStrategy selects the names of remote namespaces.
// +enum
type NamespaceMappingStrategy string

const (
	// DefaultName combines the name of the namespace, the name of the local cluster and a short
	// form of the local cluster's ID, so that the namespaces of two consumers do not conflict.
	DefaultName NamespaceMappingStrategy = "DefaultName"
	// EnforceSameName gives each remote namespace the name of the offloaded namespace.
	EnforceSameName NamespaceMappingStrategy = "EnforceSameName"
	// SelectedName gives each remote namespace the name in remoteNamespaceName.
	SelectedName NamespaceMappingStrategy = "SelectedName"
)

// PodOffloadingStrategy selects the nodes that pods of a namespace may run on.
// +enum
type PodOffloadingStrategy string

const (
	// LocalAndRemote permits nodes of the local cluster and the selected virtual nodes. Pods with
	// claims run where their data is stored.
	LocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
	// Local permits nodes of the local cluster only.
	Local PodOffloadingStrategy = "Local"
	// Remote permits the selected virtual nodes only.
	Remote PodOffloadingStrategy = "Remote"
)

// PlacementEnforcement determines what happens to pods that run on a node which their
// NamespaceOffloading does not permit.
// +enum
type PlacementEnforcement string

const (
	// Warn does not stop the pods, and reports their number in the condition PodsInPlace.
	Warn PlacementEnforcement = "Warn"
	// Evict evicts the pods, within their PodDisruptionBudgets, so that their controllers create
	// new pods on permitted nodes.
	Evict PlacementEnforcement = "Evict"
)

// NamespaceOffloadingSpec is the desired state of an offloaded namespace.
type NamespaceOffloadingSpec struct {
	// namespaceMappingStrategy selects the names of the remote namespaces. The default is
	// DefaultName. It cannot change.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty" protobuf:"bytes,1,opt,name=namespaceMappingStrategy,casttype=NamespaceMappingStrategy"`
	// remoteNamespaceName is the name of the remote namespaces, a DNS label. It is required with
	// namespaceMappingStrategy SelectedName, and forbidden otherwise. It cannot change.
	// +optional
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty" protobuf:"bytes,2,opt,name=remoteNamespaceName"`
	// podOffloadingStrategy selects the nodes that new pods may run on. The default is
	// LocalAndRemote. Pods of DaemonSets and static pods are not affected.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty" protobuf:"bytes,3,opt,name=podOffloadingStrategy,casttype=PodOffloadingStrategy"`
	// clusterSelector selects virtual nodes by their labels, and thereby the providers of these
	// nodes: a virtual node is selected if at least one of the terms matches. At most 32 terms.
	// Empty selects all virtual nodes.
	// +optional
	ClusterSelector corev1.NodeSelector `json:"clusterSelector,omitzero" protobuf:"bytes,4,opt,name=clusterSelector"`
	// enforcement determines what happens to running pods on nodes that podOffloadingStrategy or
	// clusterSelector do not permit. The default is Warn. Pods of DaemonSets and static pods are
	// not affected.
	// +optional
	Enforcement PlacementEnforcement `json:"enforcement,omitempty" protobuf:"bytes,5,opt,name=enforcement,casttype=PlacementEnforcement"`
	// volumes determines what happens to data of the namespace that providers store.
	// +optional
	Volumes NamespaceVolumes `json:"volumes,omitzero" protobuf:"bytes,6,opt,name=volumes"`
}

// UnoffloadPolicy determines what happens to data on a provider when the namespace is unoffloaded,
// the provider is no longer selected, or the peering ends.
// +enum
type UnoffloadPolicy string

const (
	// UnoffloadRefuse keeps the remote namespace without its pods, or does not end the peering,
	// until a user has moved or deleted the data.
	UnoffloadRefuse UnoffloadPolicy = "Refuse"
	// UnoffloadMove moves the data to the local cluster.
	UnoffloadMove UnoffloadPolicy = "Move"
	// UnoffloadRetain keeps the data on the provider, where the local cluster no longer has access to
	// it. The local claims become Lost, unless the peering ends: then they stay bound.
	UnoffloadRetain UnoffloadPolicy = "Retain"
	// UnoffloadDelete deletes the data.
	UnoffloadDelete UnoffloadPolicy = "Delete"
)

// NamespaceVolumes determines what happens to data of a namespace that providers store.
type NamespaceVolumes struct {
	// onUnoffload determines what happens to data on a provider when the namespace is unoffloaded,
	// the provider is no longer selected, or the peering ends. The default is Refuse. It can change
	// while the operation waits for the data.
	// +optional
	OnUnoffload UnoffloadPolicy `json:"onUnoffload,omitempty" protobuf:"bytes,1,opt,name=onUnoffload,casttype=UnoffloadPolicy"`
}

// OffloadingPhase is the state of an offloaded namespace.
// +enum
type OffloadingPhase string

const (
	// OffloadingReady means that all selected providers have a remote namespace.
	OffloadingReady OffloadingPhase = "Ready"
	// OffloadingInProgress means that remote namespaces are being created.
	OffloadingInProgress OffloadingPhase = "InProgress"
	// OffloadingNoClusterSelected means that no provider is selected.
	OffloadingNoClusterSelected OffloadingPhase = "NoClusterSelected"
	// OffloadingSomeFailed means that at least one of the selected providers, but not all of them,
	// cannot create the remote namespace.
	OffloadingSomeFailed OffloadingPhase = "SomeFailed"
	// OffloadingAllFailed means that none of the selected providers can create the remote
	// namespace.
	OffloadingAllFailed OffloadingPhase = "AllFailed"
	// OffloadingTerminating means that the namespace is being unoffloaded.
	OffloadingTerminating OffloadingPhase = "Terminating"
)

// Condition types of a NamespaceOffloading.
const (
	// ConditionPodsInPlace is True while all pods run on permitted nodes, False while some run on
	// other nodes, can only be scheduled to other nodes, or still run on virtual nodes although the
	// namespace is being unoffloaded, and Unknown while clusterSelector is invalid.
	ConditionPodsInPlace = "PodsInPlace"
	// ConditionVolumesReleased is False while the removal of a remote namespace or the end of an
	// outgoing peering waits because the provider stores data; the message names the claims or
	// volumes. It is True afterwards, and does not exist before the first wait. ForeignClusters
	// have this condition as well.
	ConditionVolumesReleased = "VolumesReleased"
)

// Condition types of an OffloadedCluster, in addition to ConditionReady.
const (
	// ConditionOffloadingRequired is True while the provider is selected, with reason
	// ClusterSelected. Otherwise it is False, with reason ClusterNotSelected, or InvalidSelector if
	// clusterSelector is invalid.
	ConditionOffloadingRequired = "OffloadingRequired"
)

// NamespaceOffloadingStatus is the observed state of an offloaded namespace.
type NamespaceOffloadingStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// phase summarizes the state of the namespace on all selected providers.
	// +optional
	Phase OffloadingPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=OffloadingPhase"`
	// remoteNamespaceName is the name of the remote namespaces, which is the same on each provider.
	// +optional
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty" protobuf:"bytes,3,opt,name=remoteNamespaceName"`
	// clusters are the providers that are peers of the local cluster, each with the state of the
	// namespace there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []OffloadedCluster `json:"clusters,omitempty" protobuf:"bytes,4,rep,name=clusters"`
	// conditions are PodsInPlace, which is False while pods run on nodes that the spec does not
	// permit, and VolumesReleased, which is False while the removal of a remote namespace waits
	// because the provider stores data of the namespace.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,5,rep,name=conditions"`
}

// OffloadedCluster is the state of an offloaded namespace on one provider.
type OffloadedCluster struct {
	// name is the name of the ForeignCluster.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// conditions are OffloadingRequired, which is True while the provider is selected, and Ready,
	// which is True while its remote namespace exists. Ready does not exist if the provider is not
	// selected and has no remote namespace.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,2,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceOffloadingList is a list of NamespaceOffloadings.
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the NamespaceOffloadings.
	Items []NamespaceOffloading `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Offload is the body of requests to the verb offload of a NamespaceOffloading, and of their
// responses. POST offloads the namespace, PUT and PATCH change how it is offloaded, and DELETE
// unoffloads it. An Offload is not stored.
type Offload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the name, namespace, uid and resourceVersion of the NamespaceOffloading. In a
	// request, uid and resourceVersion are preconditions.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the spec of the NamespaceOffloading. In a POST, empty fields get the defaults of the
	// NamespaceOffloading.
	// +optional
	Spec NamespaceOffloadingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the status of the NamespaceOffloading, and the plan of a dry run.
	// +optional
	Status OffloadStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// OffloadStatus is the observed state of an offloaded namespace, and the plan of a dry run.
type OffloadStatus struct {
	NamespaceOffloadingStatus `json:",inline" protobuf:"bytes,1,opt,name=namespaceOffloadingStatus"`
	// plan describes what the request would do. It is set only in responses to requests with
	// dryRun=All.
	// +optional
	Plan *OffloadPlan `json:"plan,omitempty" protobuf:"bytes,2,opt,name=plan"`
}
