// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
