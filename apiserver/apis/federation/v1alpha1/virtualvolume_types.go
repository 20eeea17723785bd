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

// VirtualVolume describes the data of one PersistentVolumeClaim of the virtual
// storage class: which cluster stores it, which pods mount it, and how a move of
// the data progresses. It has the name of the claim. The system creates and deletes
// it; the verb move writes its spec.
type VirtualVolume struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the requested move.
	// +optional
	Spec VirtualVolumeSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state; only the system writes it.
	// +optional
	Status VirtualVolumeStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VirtualVolumeSpec is what is requested of the data.
type VirtualVolumeSpec struct {
	// move is the requested move, written by the verb move. Removing it cancels a
	// move that has not switched to its target yet. The last move stays here after
	// it ended.
	// +optional
	Move *RequestedMove `json:"move,omitempty" protobuf:"bytes,1,opt,name=move"`
}

// RequestedMove is a move with its identity.
type RequestedMove struct {
	// id identifies the move; the server generates it.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// MoveSpec is what was requested.
	MoveSpec `json:",inline" protobuf:"bytes,2,opt,name=moveSpec"`
}

// MoveStrategy is when the pods that use the data are stopped.
// +enum
type MoveStrategy string

const (
	// MoveOnline copies while the pods run, and stops them for the last pass only.
	MoveOnline MoveStrategy = "Online"
	// MoveOffline stops the pods first, and copies once.
	MoveOffline MoveStrategy = "Offline"
)

// MoveVerification is what is compared before the target is used.
// +enum
type MoveVerification string

const (
	// VerifyChanged compares checksums of the files that changed since the last
	// pass began, and size and time of all others.
	VerifyChanged MoveVerification = "Changed"
	// VerifyFull compares checksums of all files.
	VerifyFull MoveVerification = "Full"
)

// MoveSpec is what a move requests. It cannot change while the move runs.
type MoveSpec struct {
	// target is where the data is moved to.
	Target MoveTarget `json:"target" protobuf:"bytes,1,opt,name=target"`
	// strategy is Online (the default) or Offline.
	// +optional
	Strategy MoveStrategy `json:"strategy,omitempty" protobuf:"bytes,2,opt,name=strategy,casttype=MoveStrategy"`
	// verify is Changed (the default with strategy Online) or Full (the default
	// with strategy Offline).
	// +optional
	Verify MoveVerification `json:"verify,omitempty" protobuf:"bytes,3,opt,name=verify,casttype=MoveVerification"`
	// keepSource keeps the source volume, released, when the move has ended.
	// +optional
	KeepSource bool `json:"keepSource,omitempty" protobuf:"varint,4,opt,name=keepSource"`
	// bandwidth is the most that copying may transfer, in bytes per second, for
	// example 50Mi. Empty is no limit.
	// +optional
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty" protobuf:"bytes,5,opt,name=bandwidth"`
	// evictionTimeoutSeconds bounds how long the move waits for the pods that mount
	// the claim to be evicted within their PodDisruptionBudgets; after it the move is
	// rolled back. Defaults to 300.
	// +optional
	EvictionTimeoutSeconds *int32 `json:"evictionTimeoutSeconds,omitempty" protobuf:"varint,6,opt,name=evictionTimeoutSeconds"`
}

// MoveTarget is where data is moved to. With neither local nor clusterName the data
// stays in its cluster, and moves to another node or storage class.
type MoveTarget struct {
	// local moves the data to this cluster. It excludes clusterName.
	// +optional
	Local bool `json:"local,omitempty" protobuf:"varint,1,opt,name=local"`
	// clusterName is the ForeignCluster that the data is moved to.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// nodeName is the node that the data is moved to: a node of this cluster, or a
	// virtual node of clusterName. Empty leaves the choice to the scheduler of the
	// target cluster.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,3,opt,name=nodeName"`
	// storageClassName is the StorageClass of the target cluster: a real class of
	// this cluster, or one that the provider offers. Empty is the default of the
	// target cluster.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,4,opt,name=storageClassName"`
}

// VirtualVolumePhase is the observed state of the data.
// +enum
type VirtualVolumePhase string

const (
	// VirtualVolumePending means that no cluster was chosen yet: the claim waits for
	// its first pod.
	VirtualVolumePending VirtualVolumePhase = "WaitingForFirstConsumer"
	// VirtualVolumeProvisioning means that the volume is being provisioned.
	VirtualVolumeProvisioning VirtualVolumePhase = "Provisioning"
	// VirtualVolumeBound means that the claim is bound to its volume.
	VirtualVolumeBound VirtualVolumePhase = "Bound"
	// VirtualVolumeMoving means that the data is being moved.
	VirtualVolumeMoving VirtualVolumePhase = "Moving"
	// VirtualVolumeLost means that the claim was bound and its volume is gone, in
	// this cluster or on the provider.
	VirtualVolumeLost VirtualVolumePhase = "Lost"
)

// Condition types of a VirtualVolume.
const (
	// ConditionVolumeReady is True while the claim is bound and the cluster that
	// stores the data is reachable. Otherwise its reason and message say why not.
	ConditionVolumeReady = "Ready"
	// ConditionVolumeMoved is the state of the current or the last move: True when
	// it succeeded, Unknown while it runs, False when it was rolled back or
	// cancelled; its reason is the phase.
	ConditionVolumeMoved = "Moved"
)

// VolumeLocation is where the data of a volume is stored.
type VolumeLocation struct {
	// clusterName is the ForeignCluster that stores the data; empty is this cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,1,opt,name=clusterName"`
	// clusterID is the id of the cluster that stores the data.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,2,opt,name=clusterID"`
	// storageClassName is the StorageClass of the volume in that cluster.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty" protobuf:"bytes,3,opt,name=storageClassName"`
	// volumeName is the PersistentVolume in this cluster.
	// +optional
	VolumeName string `json:"volumeName,omitempty" protobuf:"bytes,4,opt,name=volumeName"`
	// namespace and claimName are those of the provider's claim; empty where the
	// data is stored in this cluster.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,5,opt,name=namespace"`
	// claimName is the name of the provider's claim and of its ShadowVolumeClaim.
	// +optional
	ClaimName string `json:"claimName,omitempty" protobuf:"bytes,6,opt,name=claimName"`
}

// VirtualVolumeStatus is the observed state of the data.
type VirtualVolumeStatus struct {
	// phase is WaitingForFirstConsumer, Provisioning, Bound, Moving or Lost.
	// +optional
	Phase VirtualVolumePhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase,casttype=VirtualVolumePhase"`
	// location is where the data is stored; nil before a cluster was chosen.
	// +optional
	Location *VolumeLocation `json:"location,omitempty" protobuf:"bytes,2,opt,name=location"`
	// capacity is the size of the volume in bytes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,3,opt,name=capacity"`
	// mountedBy are the names of the first 16 pods that mount the claim and have not
	// ended.
	// +optional
	// +listType=atomic
	MountedBy []string `json:"mountedBy,omitempty" protobuf:"bytes,4,rep,name=mountedBy"`
	// move is the current move, or the last one.
	// +optional
	Move *MoveProgress `json:"move,omitempty" protobuf:"bytes,5,opt,name=move"`
	// conditions are Ready and, once a move was requested, Moved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,6,rep,name=conditions"`
}

// MovePhase is the step that a move is at. Each is recorded before it begins.
// +enum
type MovePhase string

const (
	// MovePreparing creates and binds the target volume and checks its free space.
	MovePreparing MovePhase = "Preparing"
	// MoveCopying copies while the pods run.
	MoveCopying MovePhase = "Copying"
	// MoveQuiescing holds new pods back and evicts those that mount the claim.
	MoveQuiescing MovePhase = "Quiescing"
	// MoveLocking binds the source volume to the move, so that nothing else mounts it.
	MoveLocking MovePhase = "Locking"
	// MoveFinalCopy copies what changed since the last pass, and verifies.
	MoveFinalCopy MovePhase = "FinalCopy"
	// MoveSwitching binds the claim to the target volume.
	MoveSwitching MovePhase = "Switching"
	// MoveReleasing lets the pods that were held back start.
	MoveReleasing MovePhase = "Releasing"
	// MoveCleaning deletes the source volume, unless it is kept, and the movers.
	MoveCleaning MovePhase = "Cleaning"
	// MoveRollingBack undoes a move that failed or was cancelled.
	MoveRollingBack MovePhase = "RollingBack"
	// MoveSucceeded means that the claim uses the target volume.
	MoveSucceeded MovePhase = "Succeeded"
	// MoveFailed means that the move was rolled back; the source is unchanged.
	MoveFailed MovePhase = "Failed"
	// MoveCancelled means that the move was cancelled; the source is unchanged.
	MoveCancelled MovePhase = "Cancelled"
)

// MoveProgress is the observed state of a move.
type MoveProgress struct {
	// id is that of the move, as in spec.move.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// phase is the step that the move is at.
	Phase MovePhase `json:"phase" protobuf:"bytes,2,opt,name=phase,casttype=MovePhase"`
	// message says what the move waits for, or why it ended.
	// +optional
	Message string `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	// source is where the data is copied from.
	Source VolumeLocation `json:"source" protobuf:"bytes,4,opt,name=source"`
	// target is where the data is copied to.
	Target VolumeLocation `json:"target" protobuf:"bytes,5,opt,name=target"`
	// claimUID is the UID of the claim that the move began with.
	// +optional
	ClaimUID types.UID `json:"claimUID,omitempty" protobuf:"bytes,6,opt,name=claimUID,casttype=k8s.io/apimachinery/pkg/types.UID"`
	// startTime is when the move began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty" protobuf:"bytes,7,opt,name=startTime"`
	// phaseTime is when the phase began.
	// +optional
	PhaseTime *metav1.Time `json:"phaseTime,omitempty" protobuf:"bytes,8,opt,name=phaseTime"`
	// completionTime is when the move ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty" protobuf:"bytes,9,opt,name=completionTime"`
	// passes is how many times the volume was copied.
	// +optional
	Passes int32 `json:"passes,omitempty" protobuf:"varint,10,opt,name=passes"`
	// bytesTotal is the size of all files of the source.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty" protobuf:"varint,11,opt,name=bytesTotal"`
	// bytesCopied is how many bytes of them the target has.
	// +optional
	BytesCopied int64 `json:"bytesCopied,omitempty" protobuf:"varint,12,opt,name=bytesCopied"`
	// filesTotal is the number of files of the source.
	// +optional
	FilesTotal int64 `json:"filesTotal,omitempty" protobuf:"varint,13,opt,name=filesTotal"`
	// filesCopied is how many of them the target has.
	// +optional
	FilesCopied int64 `json:"filesCopied,omitempty" protobuf:"varint,14,opt,name=filesCopied"`
	// bytesPerSecond is the rate of the current pass.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty" protobuf:"varint,15,opt,name=bytesPerSecond"`
	// remainingSeconds is the expected rest of the current pass.
	// +optional
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty" protobuf:"varint,16,opt,name=remainingSeconds"`
	// downtimeMilliseconds is how long no pod could use the data: from the end of
	// the last pod that mounted it until the claim was bound to the target.
	// +optional
	DowntimeMilliseconds *int64 `json:"downtimeMilliseconds,omitempty" protobuf:"varint,17,opt,name=downtimeMilliseconds"`
	// cancelled reports whether the move is being rolled back on request.
	// +optional
	Cancelled bool `json:"cancelled,omitempty" protobuf:"varint,18,opt,name=cancelled"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolumeList is a list of VirtualVolumes.
type VirtualVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the virtual volumes.
	Items []VirtualVolume `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Move is the view of a VirtualVolume that the verb move works on: POST moves the
// data, DELETE cancels a move. It carries the name, namespace, uid and
// resourceVersion of its VirtualVolume.
type Move struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is that of the VirtualVolume.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the requested move.
	// +optional
	Spec MoveSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	// status is how the move stands.
	// +optional
	Status MoveStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// MoveStatus is how a move stands.
type MoveStatus struct {
	// progress is that of the current or the last move.
	// +optional
	Progress *MoveProgress `json:"progress,omitempty" protobuf:"bytes,1,opt,name=progress"`
	// plan is what the request would lead to, in answers to dryRun=All only.
	// +optional
	Plan *MovePlan `json:"plan,omitempty" protobuf:"bytes,2,opt,name=plan"`
}
