// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:method=CreateMove,verb=create,subresource=move,input=Move,result=Move
// +genclient:method=GetMove,verb=get,subresource=move,result=Move
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolume represents the data of one PersistentVolumeClaim of the virtual StorageClass: the
// cluster that stores it, the pods that mount it, and the progress of a move. It has the name of
// the claim. The controllers create and delete it with the claim, and the verb move writes its
// spec.
type VirtualVolume struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the claim.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the requested move, written by the verb move.
	// +optional
	Spec VirtualVolumeSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the data, written by the controllers.
	// +optional
	Status VirtualVolumeStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VirtualVolumeSpec is the desired state of the data.
type VirtualVolumeSpec struct {
	// move is the requested move. Removing it cancels a move that has not switched to its target
	// yet. It remains when the move has ended.
	// +optional
	Move *RequestedMove `json:"move,omitempty" protobuf:"bytes,1,opt,name=move"`
}

// RequestedMove is a move with its ID.
type RequestedMove struct {
	// id identifies the move. The API server generates it if it is empty.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// MoveSpec is the request.
	MoveSpec `json:",inline" protobuf:"bytes,2,opt,name=moveSpec"`
}

// MoveStrategy determines when the pods that mount the claim are evicted.
// +enum
type MoveStrategy string

const (
	// MoveOnline copies while the pods run, and evicts them for the last pass.
	MoveOnline MoveStrategy = "Online"
	// MoveOffline evicts the pods first, and copies once. Claims with access mode ReadWriteOncePod
	// require it.
	MoveOffline MoveStrategy = "Offline"
)

// MoveVerification selects what is compared before the target is used.
// +enum
type MoveVerification string

const (
	// VerifyChanged compares checksums of the files that changed since the last pass began, and the
	// size and time of all others.
	VerifyChanged MoveVerification = "Changed"
	// VerifyFull compares checksums of all files.
	VerifyFull MoveVerification = "Full"
)

// MoveSpec is a requested move. It cannot change before the move has ended.
type MoveSpec struct {
	// target is the new location of the data.
	Target MoveTarget `json:"target" protobuf:"bytes,1,opt,name=target"`
	// strategy determines when the pods that mount the claim are evicted. The default is Online.
	// +optional
	Strategy MoveStrategy `json:"strategy,omitempty" protobuf:"bytes,2,opt,name=strategy,casttype=MoveStrategy"`
	// verify selects what is compared before the target is used. The default is Changed with
	// strategy Online, and Full with strategy Offline.
	// +optional
	Verify MoveVerification `json:"verify,omitempty" protobuf:"bytes,3,opt,name=verify,casttype=MoveVerification"`
	// keepSource keeps the source volume, with phase Released, after the move. The default is
	// false, which deletes it.
	// +optional
	KeepSource bool `json:"keepSource,omitempty" protobuf:"varint,4,opt,name=keepSource"`
	// bandwidth is the maximum rate of copying in bytes per second, for example 50Mi, 64Ki to
	// 100Gi. Empty is unlimited.
	// +optional
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty" protobuf:"bytes,5,opt,name=bandwidth"`
	// evictionTimeoutSeconds is the time, in seconds, that the move waits for the eviction of the
	// pods that mount the claim, which respects PodDisruptionBudgets, 1 to 86400. Afterwards the
	// move is rolled back. The default is 300.
	// +optional
	EvictionTimeoutSeconds *int32 `json:"evictionTimeoutSeconds,omitempty" protobuf:"varint,6,opt,name=evictionTimeoutSeconds"`
}

// MoveTarget is the new location of data. At least one field is required. With neither local nor
// clusterName the data stays in its cluster, and moves to another node or StorageClass.
type MoveTarget struct {
	// local moves the data to the local cluster. It excludes clusterName. The default is false.
	// +optional
	Local bool `json:"local,omitempty" protobuf:"varint,1,opt,name=local"`
	// clusterName is the name of the ForeignCluster of the provider that the data is moved to.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// nodeName is the name of a node of the local cluster, or of a virtual node of the provider.
	// Empty leaves the choice to the scheduler of the target cluster.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,3,opt,name=nodeName"`
	// storageClassName is a StorageClass of the local cluster other than the virtual one, or one
	// that the provider offers. Empty uses the default of the target cluster.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,4,opt,name=storageClassName"`
}

// VirtualVolumePhase is the state of the data.
// +enum
type VirtualVolumePhase string

const (
	// VirtualVolumePending means that no cluster is selected yet: the claim waits for its first
	// pod.
	VirtualVolumePending VirtualVolumePhase = "WaitingForFirstConsumer"
	// VirtualVolumeProvisioning means that the volume is being provisioned.
	VirtualVolumeProvisioning VirtualVolumePhase = "Provisioning"
	// VirtualVolumeBound means that the claim is bound to its volume.
	VirtualVolumeBound VirtualVolumePhase = "Bound"
	// VirtualVolumeMoving means that the data is being moved.
	VirtualVolumeMoving VirtualVolumePhase = "Moving"
	// VirtualVolumeLost means that the claim was bound, and its volume is gone, in the local
	// cluster or on the provider.
	VirtualVolumeLost VirtualVolumePhase = "Lost"
)

// Condition types of a VirtualVolume.
const (
	// ConditionVolumeReady is True while the claim is bound and the cluster that stores the data is
	// reachable, and False otherwise.
	ConditionVolumeReady = "Ready"
	// ConditionVolumeMoved is True if the last move succeeded, False if it was rolled back or
	// cancelled, and Unknown while a move runs. Its reason is the phase. It exists once a move was
	// requested.
	ConditionVolumeMoved = "Moved"
)

// VolumeLocation is the location of the data of a volume.
type VolumeLocation struct {
	// clusterName is the name of the ForeignCluster that stores the data. Empty is the local
	// cluster, or a provider that is no longer a peer.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// clusterID is the UID of the namespace kube-system of the cluster that stores the data.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// storageClassName is the StorageClass of the volume in that cluster.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,3,opt,name=storageClassName"`
	// volumeName is the name of the PersistentVolume in the local cluster.
	// +optional
	VolumeName string `json:"volumeName,omitempty" protobuf:"bytes,4,opt,name=volumeName"`
	// namespace is the namespace of the claim on the provider. Empty if the local cluster stores
	// the data.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,5,opt,name=namespace"`
	// claimName is the name of the ShadowVolumeClaim and of the claim on the provider. Empty if the
	// local cluster stores the data.
	// +optional
	ClaimName string `json:"claimName,omitempty" protobuf:"bytes,6,opt,name=claimName"`
}

// VirtualVolumeStatus is the observed state of the data.
type VirtualVolumeStatus struct {
	// phase is the state of the data.
	// +optional
	Phase VirtualVolumePhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=VirtualVolumePhase"`
	// location is the current location of the data. Empty before the volume exists.
	// +optional
	Location *VolumeLocation `json:"location,omitempty" protobuf:"bytes,2,opt,name=location"`
	// capacity is the capacity of the volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,3,opt,name=capacity"`
	// mountedBy are the names of the first 16 pods that mount the claim and have not ended.
	// +optional
	// +listType=atomic
	MountedBy []string `json:"mountedBy,omitempty" protobuf:"bytes,4,rep,name=mountedBy"`
	// move is the progress of the current move, or the result of the last one.
	// +optional
	Move *MoveProgress `json:"move,omitempty" protobuf:"bytes,5,opt,name=move"`
	// conditions are Ready, which is True while the claim is bound and the cluster that stores the
	// data is reachable, and Moved, which is True if the last move succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,6,rep,name=conditions"`
}

// MovePhase is the step of a move. Each is recorded before it begins.
// +enum
type MovePhase string

const (
	// MovePreparing creates and binds the target volume, and checks its free space.
	MovePreparing MovePhase = "Preparing"
	// MoveCopying copies while the pods run.
	MoveCopying MovePhase = "Copying"
	// MoveQuiescing gates new pods, and evicts those that mount the claim.
	MoveQuiescing MovePhase = "Quiescing"
	// MoveLocking binds the source volume to a claim of the move, so that no other pod can mount
	// it.
	MoveLocking MovePhase = "Locking"
	// MoveFinalCopy copies what changed since the last pass, and verifies.
	MoveFinalCopy MovePhase = "FinalCopy"
	// MoveSwitching binds the claim to the target volume.
	MoveSwitching MovePhase = "Switching"
	// MoveReleasing removes the scheduling gates of pods.
	MoveReleasing MovePhase = "Releasing"
	// MoveCleaning deletes the movers, and the source volume unless it is kept.
	MoveCleaning MovePhase = "Cleaning"
	// MoveRollingBack undoes a move that failed or was cancelled.
	MoveRollingBack MovePhase = "RollingBack"
	// MoveSucceeded means that the claim uses the target volume.
	MoveSucceeded MovePhase = "Succeeded"
	// MoveFailed means that the move was rolled back after a failure; the source is unchanged.
	MoveFailed MovePhase = "Failed"
	// MoveCancelled means that the move was rolled back on request; the source is unchanged.
	MoveCancelled MovePhase = "Cancelled"
)

// MoveProgress is the observed state of a move.
type MoveProgress struct {
	// id is spec.move.id of the move.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// phase is the step of the move.
	Phase MovePhase `json:"phase" protobuf:"bytes,2,opt,name=phase,casttype=MovePhase"`
	// message is what the move waits for, or why it ended.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	// source is the location that the data is copied from.
	Source VolumeLocation `json:"source" protobuf:"bytes,4,opt,name=source"`
	// target is the location that the data is copied to.
	Target VolumeLocation `json:"target" protobuf:"bytes,5,opt,name=target"`
	// claimUID is the UID of the claim when the move began. The switch to the target creates the
	// claim again.
	// +optional
	ClaimUID types.UID `json:"claimUID,omitempty" protobuf:"bytes,6,opt,name=claimUID,casttype=k8s.io/apimachinery/pkg/types.UID"`
	// startTime is the time at which the move began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty" protobuf:"bytes,7,opt,name=startTime"`
	// phaseTime is the time at which the phase began.
	// +optional
	PhaseTime *metav1.Time `json:"phaseTime,omitempty" protobuf:"bytes,8,opt,name=phaseTime"`
	// completionTime is the time at which the move ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty" protobuf:"bytes,9,opt,name=completionTime"`
	// passes is the number of complete passes over the volume.
	// +optional
	Passes int32 `json:"passes,omitempty" protobuf:"varint,10,opt,name=passes"`
	// bytesTotal is the total size of the files of the source in bytes.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty" protobuf:"varint,11,opt,name=bytesTotal"`
	// bytesCopied is the part of bytesTotal that the target has.
	// +optional
	BytesCopied int64 `json:"bytesCopied,omitempty" protobuf:"varint,12,opt,name=bytesCopied"`
	// filesTotal is the number of files of the source.
	// +optional
	FilesTotal int64 `json:"filesTotal,omitempty" protobuf:"varint,13,opt,name=filesTotal"`
	// filesCopied is the part of filesTotal that the target has.
	// +optional
	FilesCopied int64 `json:"filesCopied,omitempty" protobuf:"varint,14,opt,name=filesCopied"`
	// bytesPerSecond is the transfer rate of the current pass.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty" protobuf:"varint,15,opt,name=bytesPerSecond"`
	// remainingSeconds is the estimated rest of the current pass in seconds. Empty if it is
	// unknown.
	// +optional
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty" protobuf:"varint,16,opt,name=remainingSeconds"`
	// downtimeMilliseconds is the downtime of the move: from the end of the last pod that mounted
	// the claim until the claim was bound to the target. Empty before.
	// +optional
	DowntimeMilliseconds *int64 `json:"downtimeMilliseconds,omitempty" protobuf:"varint,17,opt,name=downtimeMilliseconds"`
	// cancelled is true if the move is rolled back on request.
	// +optional
	Cancelled bool `json:"cancelled,omitempty" protobuf:"varint,18,opt,name=cancelled"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolumeList is a list of VirtualVolumes.
type VirtualVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the VirtualVolumes.
	Items []VirtualVolume `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Move is the body of requests to the verb move of a VirtualVolume, and of their responses. POST
// requests a move, GET returns its progress, and DELETE cancels it. It is not stored.
type Move struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the name, namespace, uid and resourceVersion of the VirtualVolume. In a request,
	// uid and resourceVersion are preconditions.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the requested move.
	// +optional
	Spec MoveSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the progress of the move, and the plan of a dry run.
	// +optional
	Status MoveStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// MoveStatus is the observed state of a move.
type MoveStatus struct {
	// progress is the progress of the current move, or the result of the last one.
	// +optional
	Progress *MoveProgress `json:"progress,omitempty" protobuf:"bytes,1,opt,name=progress"`
	// plan is the effect of the request. It is set in responses to dryRun=All only.
	// +optional
	Plan *MovePlan `json:"plan,omitempty" protobuf:"bytes,2,opt,name=plan"`
}
