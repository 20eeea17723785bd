// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// PlanAction is what a request would do.
// +enum
type PlanAction string

const (
	// PlanCreate means that something would be made that is not there.
	PlanCreate PlanAction = "Create"
	// PlanChange means that something that is there would change.
	PlanChange PlanAction = "Change"
	// PlanDelete means that something that is there would go.
	PlanDelete PlanAction = "Delete"
	// PlanNone means that everything would stay as it is.
	PlanNone PlanAction = "None"
)

// PeeringPlan is what a request to the verb peer would lead to, as far as this
// cluster knows. It is in answers to dryRun=All only, and stored nowhere.
type PeeringPlan struct {
	// action is what would happen to the ForeignCluster: Create, Change, Delete
	// or None.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// foreignCluster is the name of the ForeignCluster.
	ForeignCluster string `json:"foreignCluster" protobuf:"bytes,2,opt,name=foreignCluster"`
	// clusterID is the provider's cluster id. Empty means that it becomes known
	// when the provider answers.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,3,opt,name=clusterID"`
	// server is where the provider would be dialled.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,4,opt,name=server"`
	// peerNamespace is the namespace in this cluster for what is known of the
	// provider.
	PeerNamespace string `json:"peerNamespace" protobuf:"bytes,5,opt,name=peerNamespace"`
	// virtualNode is the name of the first virtual node of the provider.
	VirtualNode string `json:"virtualNode" protobuf:"bytes,6,opt,name=virtualNode"`
	// conflicts are what is in the way in this cluster, and what to do about
	// it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty" protobuf:"bytes,7,rep,name=conflicts"`
	// evictedPods counts the pods of this cluster that run at the provider and
	// would have to leave it.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty" protobuf:"varint,8,opt,name=evictedPods"`
	// unknown are the things that nobody in this cluster can tell.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,9,rep,name=unknown"`
	// volumes are those of this cluster's claims whose data the provider stores, the
	// first 100, with what would happen to each.
	// +optional
	// +listType=atomic
	Volumes []PlannedVolume `json:"volumes,omitempty" protobuf:"bytes,10,rep,name=volumes"`
}

// OffloadPlan is what a request to the verb offload would lead to, as far as
// this cluster knows. It is in answers to dryRun=All only, and stored nowhere.
type OffloadPlan struct {
	// action is what would happen to the NamespaceOffloading: Create, Change,
	// Delete or None.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// clusters tells for each foreign cluster what would happen there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []PlannedCluster `json:"clusters,omitempty" protobuf:"bytes,2,rep,name=clusters"`
	// conflicts are what is in the way, and what to do about it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty" protobuf:"bytes,3,rep,name=conflicts"`
	// evictedPods counts the pods of the namespace that would have to leave
	// their nodes.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty" protobuf:"varint,4,opt,name=evictedPods"`
	// misplacedPodCount counts the pods that would run where the request no
	// longer lets them.
	// +optional
	MisplacedPodCount int32 `json:"misplacedPodCount,omitempty" protobuf:"varint,5,opt,name=misplacedPodCount"`
	// misplacedPods are the first 100 of them by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	MisplacedPods []MisplacedPod `json:"misplacedPods,omitempty" protobuf:"bytes,6,rep,name=misplacedPods"`
	// unknown are the things that nobody in this cluster can tell.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,7,rep,name=unknown"`
	// volumes are those of the namespace whose data a cluster stores that the
	// request gives up, the first 100, with what would happen to each.
	// +optional
	// +listType=atomic
	Volumes []PlannedVolume `json:"volumes,omitempty" protobuf:"bytes,8,rep,name=volumes"`
}

// PlannedCluster is what would happen at one foreign cluster.
type PlannedCluster struct {
	// name is the name of the ForeignCluster.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// selected tells whether the namespace would extend to the cluster.
	Selected bool `json:"selected" protobuf:"varint,2,opt,name=selected"`
	// message says why it would not.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	// namespaceName is the name of the twin namespace there.
	// +optional
	NamespaceName string `json:"namespaceName,omitempty" protobuf:"bytes,4,opt,name=namespaceName"`
	// action is what would happen to the twin namespace: Create, Delete or
	// None.
	Action PlanAction `json:"action" protobuf:"bytes,5,opt,name=action,casttype=PlanAction"`
}

// MisplacedPod is a pod that would run where the request no longer lets it.
type MisplacedPod struct {
	// name is the name of the pod.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// nodeName is the name of the node that it runs on.
	NodeName string `json:"nodeName" protobuf:"bytes,2,opt,name=nodeName"`
	// message says why it may not run there.
	Message string `json:"message" protobuf:"bytes,3,opt,name=message"`
	// action is what would happen to the pod: Delete, by eviction, or None.
	Action PlanAction `json:"action" protobuf:"bytes,4,opt,name=action,casttype=PlanAction"`
}

// MovePlan is what a request to the verb move would lead to, as far as this
// cluster knows. It is in answers to dryRun=All only, and stored nowhere.
type MovePlan struct {
	// action is Change where data would be moved, and None where it is at the
	// target already.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// source is where the data is.
	Source VolumeLocation `json:"source" protobuf:"bytes,2,opt,name=source"`
	// target is where the data would be.
	Target VolumeLocation `json:"target" protobuf:"bytes,3,opt,name=target"`
	// capacity is the size of the target volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,4,opt,name=capacity"`
	// bytesUsed is the size of the data, where it is known.
	// +optional
	BytesUsed *int64 `json:"bytesUsed,omitempty" protobuf:"varint,5,opt,name=bytesUsed"`
	// files is the number of files, where it is known.
	// +optional
	Files *int64 `json:"files,omitempty" protobuf:"varint,6,opt,name=files"`
	// path is the way that the data would take between the two ends, in words.
	// +optional
	Path string `json:"path,omitempty" protobuf:"bytes,7,opt,name=path"`
	// evictedPods are the first 100 pods that would be evicted.
	// +optional
	// +listType=map
	// +listMapKey=name
	EvictedPods []PlannedEviction `json:"evictedPods,omitempty" protobuf:"bytes,8,rep,name=evictedPods"`
	// evictedPodCount is how many pods would be evicted.
	// +optional
	EvictedPodCount int32 `json:"evictedPodCount,omitempty" protobuf:"varint,9,opt,name=evictedPodCount"`
	// downtime is what the time without the data consists of, in words.
	// +optional
	Downtime string `json:"downtime,omitempty" protobuf:"bytes,10,opt,name=downtime"`
	// warnings are what can make the move fail or take long.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty" protobuf:"bytes,11,rep,name=warnings"`
	// unknown are the things that this cluster does not know.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,12,rep,name=unknown"`
}

// PlannedEviction is a pod that would be evicted.
type PlannedEviction struct {
	// name is the name of the pod.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// nodeName is the node that it runs on.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,2,opt,name=nodeName"`
	// disruptionBudget is the PodDisruptionBudget that covers the pod, if any.
	// +optional
	DisruptionBudget string `json:"disruptionBudget,omitempty" protobuf:"bytes,3,opt,name=disruptionBudget"`
	// disruptionsAllowed is how many pods that budget lets go at the moment.
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed,omitempty" protobuf:"varint,4,opt,name=disruptionsAllowed"`
}

// PlannedVolume is a volume whose data is stored at a cluster that a request gives
// up.
type PlannedVolume struct {
	// name is the name of the VirtualVolume and of its claim.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// namespace is the namespace of the claim.
	Namespace string `json:"namespace" protobuf:"bytes,2,opt,name=namespace"`
	// clusterName is the ForeignCluster that stores the data.
	ClusterName string `json:"clusterName" protobuf:"bytes,3,opt,name=clusterName"`
	// capacity is the size of the volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,4,opt,name=capacity"`
	// onUnoffload is what would happen to it: Refuse, Move, Retain or Delete.
	OnUnoffload UnoffloadPolicy `json:"onUnoffload" protobuf:"bytes,5,opt,name=onUnoffload,casttype=UnoffloadPolicy"`
}
