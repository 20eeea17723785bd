// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// PlanAction is the effect that a request would have on an object.
// +enum
type PlanAction string

const (
	// PlanCreate means that the object would be created.
	PlanCreate PlanAction = "Create"
	// PlanChange means that the object would be changed.
	PlanChange PlanAction = "Change"
	// PlanDelete means that the object would be deleted.
	PlanDelete PlanAction = "Delete"
	// PlanNone means that the object would not be changed.
	PlanNone PlanAction = "None"
)

// PeeringPlan describes what a request to the verb peer would do, as far as the local cluster can
// determine it. It is returned only for dryRun=All, and not stored.
type PeeringPlan struct {
	// action is the effect on the ForeignCluster.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// foreignCluster is the name of the ForeignCluster.
	ForeignCluster string `json:"foreignCluster" protobuf:"bytes,2,opt,name=foreignCluster"`
	// clusterID is the UID of the namespace kube-system of the provider. Empty if only a connection
	// to the provider can determine it.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,3,opt,name=clusterID"`
	// server is the https URL of the Kubernetes API of the provider. Empty if spec.server of the
	// ForeignCluster is empty.
	// +optional
	Server string `json:"server,omitempty" protobuf:"bytes,4,opt,name=server"`
	// peerNamespace is the name of the local namespace with the objects and Secrets for the
	// provider.
	PeerNamespace string `json:"peerNamespace" protobuf:"bytes,5,opt,name=peerNamespace"`
	// virtualNode is the name of the virtual node that would represent the provider, liqo-<name>. If
	// the provider makes offers of shape PerNode, the names are liqo-<name>-<number> instead.
	VirtualNode string `json:"virtualNode" protobuf:"bytes,6,opt,name=virtualNode"`
	// conflicts are the reasons for which the local cluster would refuse the peering, each with
	// what to do. Empty if there are none.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty" protobuf:"bytes,7,rep,name=conflicts"`
	// evictedPods is the number of pods on the virtual nodes of the provider that would be evicted.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty" protobuf:"varint,8,opt,name=evictedPods"`
	// unknown are the effects that the local cluster cannot determine. Empty if there are none.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,9,rep,name=unknown"`
	// volumes are, if the request would end the outgoing peering, the first 100 volumes, by
	// namespace and name, whose data the provider stores, each with the effect on the data.
	// +optional
	// +listType=atomic
	Volumes []PlannedVolume `json:"volumes,omitempty" protobuf:"bytes,10,rep,name=volumes"`
}

// OffloadPlan describes what a request to the verb offload would do, as far as the local cluster
// can determine it. It is returned only for dryRun=All, and not stored.
type OffloadPlan struct {
	// action is the effect on the NamespaceOffloading.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// clusters are the providers that are peers of the local cluster, each with the effect on its
	// remote namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []PlannedCluster `json:"clusters,omitempty" protobuf:"bytes,2,rep,name=clusters"`
	// conflicts are the reasons for which the request would fail or have no effect, each with what
	// to do. Empty if there are none.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty" protobuf:"bytes,3,rep,name=conflicts"`
	// evictedPods is the number of pods of the namespace that would be evicted.
	// +optional
	EvictedPods int32 `json:"evictedPods,omitempty" protobuf:"varint,4,opt,name=evictedPods"`
	// misplacedPodCount is the number of pods that run on, or can only be scheduled to, nodes that
	// the request does not permit.
	// +optional
	MisplacedPodCount int32 `json:"misplacedPodCount,omitempty" protobuf:"varint,5,opt,name=misplacedPodCount"`
	// misplacedPods are the first 100 pods, by name, that misplacedPodCount counts.
	// +optional
	// +listType=map
	// +listMapKey=name
	MisplacedPods []MisplacedPod `json:"misplacedPods,omitempty" protobuf:"bytes,6,rep,name=misplacedPods"`
	// unknown are the effects that the local cluster cannot determine. Empty if there are none.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,7,rep,name=unknown"`
	// volumes are the first 100 volumes of the namespace, by provider and name, whose data is
	// stored by a provider that would no longer be selected, each with the effect on the data.
	// +optional
	// +listType=atomic
	Volumes []PlannedVolume `json:"volumes,omitempty" protobuf:"bytes,8,rep,name=volumes"`
}

// PlannedCluster is the effect of a request on one provider.
type PlannedCluster struct {
	// name is the name of the ForeignCluster.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// selected is true if the namespace would be offloaded to the provider.
	Selected bool `json:"selected" protobuf:"varint,2,opt,name=selected"`
	// message is the reason for which the provider would not be selected. Empty if it would be
	// selected.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	// namespaceName is the name of the remote namespace. Empty without a remote namespace.
	// +optional
	NamespaceName string `json:"namespaceName,omitempty" protobuf:"bytes,4,opt,name=namespaceName"`
	// action is the effect on the remote namespace.
	Action PlanAction `json:"action" protobuf:"bytes,5,opt,name=action,casttype=PlanAction"`
}

// MisplacedPod is a pod that runs on, or can only be scheduled to, a node that the request does not
// permit.
type MisplacedPod struct {
	// name is the name of the pod.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// nodeName is the name of the pod's node. Empty if the pod is not scheduled.
	NodeName string `json:"nodeName" protobuf:"bytes,2,opt,name=nodeName"`
	// message is the reason for which the request does not permit the node of the pod.
	Message string `json:"message" protobuf:"bytes,3,opt,name=message"`
	// action is Delete if the pod would be evicted, and None otherwise.
	Action PlanAction `json:"action" protobuf:"bytes,4,opt,name=action,casttype=PlanAction"`
}

// MovePlan describes what a request to the verb move would do, as far as the local cluster can
// determine it. It is returned only for dryRun=All, and not stored.
type MovePlan struct {
	// action is Change if the data would be moved, and None if it is already at the target.
	Action PlanAction `json:"action" protobuf:"bytes,1,opt,name=action,casttype=PlanAction"`
	// source is the current location of the data.
	Source VolumeLocation `json:"source" protobuf:"bytes,2,opt,name=source"`
	// target is the new location of the data.
	Target VolumeLocation `json:"target" protobuf:"bytes,3,opt,name=target"`
	// capacity is the capacity of the target volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,4,opt,name=capacity"`
	// bytesUsed is always empty: a dry run does not count the data. Once the move has begun, bytesTotal
	// of its progress has the size in bytes.
	// +optional
	BytesUsed *int64 `json:"bytesUsed,omitempty" protobuf:"varint,5,opt,name=bytesUsed"`
	// files is always empty. Once the move has begun, filesTotal of its progress has the number.
	// +optional
	Files *int64 `json:"files,omitempty" protobuf:"varint,6,opt,name=files"`
	// path describes the network path of the data from the source to the target.
	// +optional
	Path string `json:"path,omitempty" protobuf:"bytes,7,opt,name=path"`
	// evictedPods are the first 100 pods, by name, that would be evicted because they mount the
	// claim.
	// +optional
	// +listType=map
	// +listMapKey=name
	EvictedPods []PlannedEviction `json:"evictedPods,omitempty" protobuf:"bytes,8,rep,name=evictedPods"`
	// evictedPodCount is the number of all pods that would be evicted because they mount the claim.
	// +optional
	EvictedPodCount int32 `json:"evictedPodCount,omitempty" protobuf:"varint,9,opt,name=evictedPodCount"`
	// downtime describes the steps during which no pod can use the claim.
	// +optional
	Downtime string `json:"downtime,omitempty" protobuf:"bytes,10,opt,name=downtime"`
	// warnings are reasons for which the move can fail or take long. Empty if there are none.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty" protobuf:"bytes,11,rep,name=warnings"`
	// unknown are the effects that the local cluster cannot determine. Empty if there are none.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitempty" protobuf:"bytes,12,rep,name=unknown"`
}

// PlannedEviction is a pod that would be evicted.
type PlannedEviction struct {
	// name is the name of the pod.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// nodeName is the name of the pod's node. Empty if the pod is not scheduled.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,2,opt,name=nodeName"`
	// disruptionBudget is the name of the PodDisruptionBudget that selects the pod, the first by
	// name if several do. Empty if none does.
	// +optional
	DisruptionBudget string `json:"disruptionBudget,omitempty" protobuf:"bytes,3,opt,name=disruptionBudget"`
	// disruptionsAllowed is status.disruptionsAllowed of the PodDisruptionBudget in
	// disruptionBudget. 0 if disruptionBudget is empty.
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed,omitempty" protobuf:"varint,4,opt,name=disruptionsAllowed"`
}

// PlannedVolume is a volume whose data is stored by a provider that the request would no longer
// use.
type PlannedVolume struct {
	// name is the name of the VirtualVolume and of its claim.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// namespace is the namespace of the claim.
	Namespace string `json:"namespace" protobuf:"bytes,2,opt,name=namespace"`
	// clusterName is the name of the ForeignCluster of the provider that stores the data.
	ClusterName string `json:"clusterName" protobuf:"bytes,3,opt,name=clusterName"`
	// capacity is the capacity of the volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,4,opt,name=capacity"`
	// onUnoffload is the policy of the namespace for the data: Refuse, Move, Retain or Delete.
	OnUnoffload UnoffloadPolicy `json:"onUnoffload" protobuf:"bytes,5,opt,name=onUnoffload,casttype=UnoffloadPolicy"`
}
