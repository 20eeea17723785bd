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
	Action PlanAction `json:"action"`
	// foreignCluster is the name of the ForeignCluster.
	ForeignCluster string `json:"foreignCluster"`
	// clusterID is the provider's cluster id. Empty means that it becomes known
	// when the provider answers.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// server is where the provider would be dialled.
	// +optional
	Server string `json:"server,omitempty"`
	// peerNamespace is the namespace in this cluster for what is known of the
	// provider.
	PeerNamespace string `json:"peerNamespace"`
	// virtualNode is the name of the first virtual node of the provider.
	VirtualNode string `json:"virtualNode"`
	// conflicts are what is in the way in this cluster, and what to do about
	// it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// evictedPods counts the pods of this cluster that run at the provider and
	// would have to leave it.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty"`
	// unknown are the things that nobody in this cluster can tell.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty"`
}

// OffloadPlan is what a request to the verb offload would lead to, as far as
// this cluster knows. It is in answers to dryRun=All only, and stored nowhere.
type OffloadPlan struct {
	// action is what would happen to the NamespaceOffloading: Create, Change,
	// Delete or None.
	Action PlanAction `json:"action"`
	// clusters tells for each foreign cluster what would happen there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []PlannedCluster `json:"clusters,omitempty"`
	// conflicts are what is in the way, and what to do about it.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// evictedPods counts the pods of the namespace that would have to leave
	// their nodes.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty"`
	// misplacedPodCount counts the pods that would run where the request no
	// longer lets them.
	// +optional
	MisplacedPodCount int32 `json:"misplacedPodCount,omitempty"`
	// misplacedPods are the first 100 of them by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	MisplacedPods []MisplacedPod `json:"misplacedPods,omitempty"`
	// unknown are the things that nobody in this cluster can tell.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty"`
}

// PlannedCluster is what would happen at one foreign cluster.
type PlannedCluster struct {
	// name is the name of the ForeignCluster.
	Name string `json:"name"`
	// selected tells whether the namespace would extend to the cluster.
	Selected bool `json:"selected"`
	// message says why it would not.
	// +optional
	Message string `json:"message,omitempty"`
	// namespaceName is the name of the twin namespace there.
	// +optional
	NamespaceName string `json:"namespaceName,omitempty"`
	// action is what would happen to the twin namespace: Create, Delete or
	// None.
	Action PlanAction `json:"action"`
}

// MisplacedPod is a pod that would run where the request no longer lets it.
type MisplacedPod struct {
	// name is the name of the pod.
	Name string `json:"name"`
	// nodeName is the name of the node that it runs on.
	NodeName string `json:"nodeName"`
	// message says why it may not run there.
	Message string `json:"message"`
	// action is what would happen to the pod: Delete, by eviction, or None.
	Action PlanAction `json:"action"`
}
