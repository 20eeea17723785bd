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
// cluster that stores it, the pods that mount it, and the progress of a move. It has the namespace
// and name of the claim. The controllers create it with the claim and delete it after the claim.
type VirtualVolume struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the claim.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the requested move. The verb move writes it.
	// +optional
	Spec VirtualVolumeSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the data, written by the controllers.
	// +optional
	Status VirtualVolumeStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VirtualVolumeSpec is the desired location of the data.
type VirtualVolumeSpec struct {
	// move is the requested move. Removing it cancels the move, unless the claim is already bound
	// to the target volume. It is not removed when the move ends. Empty means that no move was
	// requested.
	// +optional
	Move *RequestedMove `json:"move,omitempty" protobuf:"bytes,1,opt,name=move"`
}

// RequestedMove is a requested move and its ID.
type RequestedMove struct {
	// id identifies the move. The API server generates it if it is empty. It cannot change before
	// the move has ended.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// MoveSpec is the requested target and the settings of the move.
	MoveSpec `json:",inline" protobuf:"bytes,2,opt,name=moveSpec"`
}

// MoveStrategy determines when the pods that mount the claim are evicted.
// +enum
type MoveStrategy string

const (
	// MoveOnline copies the data while the pods run, and evicts them before it copies the last
	// changes.
	MoveOnline MoveStrategy = "Online"
	// MoveOffline evicts the pods before it copies the data once. It is required for claims with
	// access mode ReadWriteOncePod.
	MoveOffline MoveStrategy = "Offline"
)

// MoveVerification selects the files that are compared between source and target before the claim
// is bound to the target.
// +enum
type MoveVerification string

const (
	// VerifyChanged compares checksums of the files that changed after the first copy began, and
	// size and modification time of all other files.
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
	// verify selects the files that are compared between source and target before the claim is
	// bound to the target. The default is Changed with strategy Online, and Full with strategy
	// Offline.
	// +optional
	Verify MoveVerification `json:"verify,omitempty" protobuf:"bytes,3,opt,name=verify,casttype=MoveVerification"`
	// keepSource keeps the source volume after the move, as a PersistentVolume with phase Released.
	// The default is false, which deletes the source volume with its data.
	// +optional
	KeepSource bool `json:"keepSource,omitempty" protobuf:"varint,4,opt,name=keepSource"`
	// bandwidth is the maximum rate of the copy in bytes per second, 64Ki to 100Gi, for example
	// 50Mi. Empty means unlimited.
	// +optional
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty" protobuf:"bytes,5,opt,name=bandwidth"`
	// evictionTimeoutSeconds is the time, in seconds, within which the pods that mount the claim
	// must be evicted, 1 to 86400. The eviction respects PodDisruptionBudgets. If it takes longer,
	// the move is rolled back. The default is 300.
	// +optional
	EvictionTimeoutSeconds *int32 `json:"evictionTimeoutSeconds,omitempty" protobuf:"varint,6,opt,name=evictionTimeoutSeconds"`
}

// MoveTarget is the new location of the data. At least one field is required. If neither local nor
// clusterName is set, the data stays in its cluster and is moved to the given node or StorageClass.
type MoveTarget struct {
	// local moves the data to the local cluster. It is forbidden together with clusterName. The
	// default is false.
	// +optional
	Local bool `json:"local,omitempty" protobuf:"varint,1,opt,name=local"`
	// clusterName is the name of the ForeignCluster of the provider to move the data to. Empty does
	// not select a provider.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// nodeName is the name of the target node: a node of the local cluster, or a virtual node of
	// the provider. If it is empty, the scheduler of the target cluster selects the node.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,3,opt,name=nodeName"`
	// storageClassName is the StorageClass of the target volume: in the local cluster any but the
	// virtual StorageClass, on a provider one that it offers. If empty, it is the class in the
	// parameter localStorageClassName of the virtual StorageClass, on a provider only if the provider
	// offers it, otherwise the default StorageClass of the local cluster or the first class that the
	// provider offers. The class of the source is not used.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,4,opt,name=storageClassName"`
}

// VirtualVolumePhase is the state of the data.
// +enum
type VirtualVolumePhase string

const (
	// VirtualVolumePending means that the claim waits for its first pod, whose node determines the
	// cluster.
	VirtualVolumePending VirtualVolumePhase = "WaitingForFirstConsumer"
	// VirtualVolumeProvisioning means that the volume is being provisioned.
	VirtualVolumeProvisioning VirtualVolumePhase = "Provisioning"
	// VirtualVolumeBound means that the claim is bound to its volume.
	VirtualVolumeBound VirtualVolumePhase = "Bound"
	// VirtualVolumeMoving means that the data is being moved.
	VirtualVolumeMoving VirtualVolumePhase = "Moving"
	// VirtualVolumeLost means that the claim was bound, and that its volume in the local cluster or
	// on the provider no longer exists.
	VirtualVolumeLost VirtualVolumePhase = "Lost"
)

// Condition types of a VirtualVolume.
const (
	// ConditionVolumeReady is True while the claim is bound and the cluster that stores the data is
	// reachable, and False otherwise.
	ConditionVolumeReady = "Ready"
	// ConditionVolumeMoved is True if the last move succeeded, False if it was rolled back or
	// cancelled, and Unknown while a move runs. Its reason is the phase of the move. It exists once
	// a move was requested.
	ConditionVolumeMoved = "Moved"
)

// VolumeLocation is the location of the data of a volume.
type VolumeLocation struct {
	// clusterName is the name of the ForeignCluster of the provider that stores the data. Empty if
	// the local cluster stores the data, or if the provider is no longer a peer.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// clusterID is the UID of the namespace kube-system of the cluster that stores the data.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// storageClassName is the StorageClass of the volume in the cluster that stores the data.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,3,opt,name=storageClassName"`
	// volumeName is the name of the PersistentVolume in the local cluster.
	// +optional
	VolumeName string `json:"volumeName,omitempty" protobuf:"bytes,4,opt,name=volumeName"`
	// namespace is the namespace of the claim on the provider. Empty if the local cluster stores
	// the data.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,5,opt,name=namespace"`
	// claimName is the name of the ShadowVolumeClaim and of the PersistentVolumeClaim on the
	// provider. Empty if the local cluster stores the data.
	// +optional
	ClaimName string `json:"claimName,omitempty" protobuf:"bytes,6,opt,name=claimName"`
}

// VirtualVolumeStatus is the observed location and state of the data.
type VirtualVolumeStatus struct {
	// phase is the state of the data.
	// +optional
	Phase VirtualVolumePhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=VirtualVolumePhase"`
	// location is the current location of the data. Empty before the volume exists.
	// +optional
	Location *VolumeLocation `json:"location,omitempty" protobuf:"bytes,2,opt,name=location"`
	// capacity is the capacity of the volume in bytes. Empty before the volume exists.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,3,opt,name=capacity"`
	// mountedBy are the names of the first 16 pods, by name, that mount the claim, are bound to a
	// node and have not ended. Empty if there are none.
	// +optional
	// +listType=atomic
	MountedBy []string `json:"mountedBy,omitempty" protobuf:"bytes,4,rep,name=mountedBy"`
	// move is the progress of the current move, or the result of the last move. Empty before the
	// first move.
	// +optional
	Move *MoveProgress `json:"move,omitempty" protobuf:"bytes,5,opt,name=move"`
	// conditions are Ready, which is True while the claim is bound and the cluster that stores the
	// data is reachable, and Moved, which is True if the last move succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,6,rep,name=conditions"`
}

// MovePhase is the current step of a move. The controllers write each phase to the status before
// they begin the step.
// +enum
type MovePhase string

const (
	// MovePreparing creates the target volume, and starts the receiver.
	MovePreparing MovePhase = "Preparing"
	// MoveCopying checks the free space of the target, and copies the data while the pods run.
	MoveCopying MovePhase = "Copying"
	// MoveQuiescing adds a scheduling gate to new pods that mount the claim, and evicts the running
	// pods that mount it.
	MoveQuiescing MovePhase = "Quiescing"
	// MoveLocking binds the source volume to a claim that the move creates, so that only its movers
	// can mount the volume.
	MoveLocking MovePhase = "Locking"
	// MoveFinalCopy copies the changes since the previous copy, or with the strategy Offline all data
	// after it checked the free space, and verifies the target.
	MoveFinalCopy MovePhase = "FinalCopy"
	// MoveSwitching binds the claim to the target volume.
	MoveSwitching MovePhase = "Switching"
	// MoveReleasing removes the scheduling gates that the move added to pods.
	MoveReleasing MovePhase = "Releasing"
	// MoveCleaning deletes the movers, and deletes the source volume unless keepSource is true.
	MoveCleaning MovePhase = "Cleaning"
	// MoveRollingBack undoes a move that failed or was cancelled.
	MoveRollingBack MovePhase = "RollingBack"
	// MoveSucceeded means that the claim is bound to the target volume, and that the move has
	// ended.
	MoveSucceeded MovePhase = "Succeeded"
	// MoveFailed means that the move was rolled back after a failure. The claim uses the source
	// volume.
	MoveFailed MovePhase = "Failed"
	// MoveCancelled means that the move was rolled back because a user cancelled it. The claim uses
	// the source volume.
	MoveCancelled MovePhase = "Cancelled"
)

// MoveProgress is the progress of a running move, or the result of a move that has ended.
type MoveProgress struct {
	// id is the ID of the move, from spec.move.id of the VirtualVolume.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// phase is the current step of the move, or its result.
	Phase MovePhase `json:"phase" protobuf:"bytes,2,opt,name=phase,casttype=MovePhase"`
	// message is what the move waits for, or the reason for its result.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	// source is the location that the data is copied from.
	Source VolumeLocation `json:"source" protobuf:"bytes,4,opt,name=source"`
	// target is the location that the data is copied to.
	Target VolumeLocation `json:"target" protobuf:"bytes,5,opt,name=target"`
	// claimUID is the UID that the claim had when the move began. Its UID changes in phase
	// Switching, which deletes the claim and creates it again.
	// +optional
	ClaimUID types.UID `json:"claimUID,omitempty" protobuf:"bytes,6,opt,name=claimUID,casttype=k8s.io/apimachinery/pkg/types.UID"`
	// startTime is the time at which the move began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty" protobuf:"bytes,7,opt,name=startTime"`
	// phaseTime is the time at which the current phase began.
	// +optional
	PhaseTime *metav1.Time `json:"phaseTime,omitempty" protobuf:"bytes,8,opt,name=phaseTime"`
	// completionTime is the time at which the move ended. Empty while it runs.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty" protobuf:"bytes,9,opt,name=completionTime"`
	// passes is the number of completed passes; each compares all files and copies the changed ones.
	// An online move has one to five passes before it evicts the pods, and one pass afterwards.
	// +optional
	Passes int32 `json:"passes,omitempty" protobuf:"varint,10,opt,name=passes"`
	// bytesTotal is the total size of the files of the source in bytes.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty" protobuf:"varint,11,opt,name=bytesTotal"`
	// bytesCopied is the size in bytes of the files that the target already has, at most
	// bytesTotal.
	// +optional
	BytesCopied int64 `json:"bytesCopied,omitempty" protobuf:"varint,12,opt,name=bytesCopied"`
	// filesTotal is the number of paths in the source, including directories; a file with several hard
	// links counts once per path.
	// +optional
	FilesTotal int64 `json:"filesTotal,omitempty" protobuf:"varint,13,opt,name=filesTotal"`
	// filesCopied is the number of paths, including directories, that the target already has, at most
	// filesTotal.
	// +optional
	FilesCopied int64 `json:"filesCopied,omitempty" protobuf:"varint,14,opt,name=filesCopied"`
	// bytesPerSecond is the transfer rate of the current pass over the files, in bytes per second.
	// 0 while no data is copied.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty" protobuf:"varint,15,opt,name=bytesPerSecond"`
	// remainingSeconds is the estimated time until the first pass over the files ends, in seconds.
	// Empty in later passes, whose changed files are not known in advance, and while no data is
	// copied.
	// +optional
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty" protobuf:"varint,16,opt,name=remainingSeconds"`
	// downtimeMilliseconds is the downtime of the move, in milliseconds: the time from the end of
	// the last pod that mounted the claim until the claim was bound to the target. Empty until
	// then.
	// +optional
	DowntimeMilliseconds *int64 `json:"downtimeMilliseconds,omitempty" protobuf:"varint,17,opt,name=downtimeMilliseconds"`
	// cancelled is true if the move is being, or was, rolled back because a user cancelled it.
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
// requests a move, GET returns its progress, and DELETE cancels it. A Move is not stored.
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

// MoveStatus is the observed state of a move, and the plan of a dry run.
type MoveStatus struct {
	// progress is the progress of the current move, or the result of the last move. Empty before
	// the first move.
	// +optional
	Progress *MoveProgress `json:"progress,omitempty" protobuf:"bytes,1,opt,name=progress"`
	// plan describes what the request would do. It is set only in responses to requests with
	// dryRun=All.
	// +optional
	Plan *MovePlan `json:"plan,omitempty" protobuf:"bytes,2,opt,name=plan"`
}
