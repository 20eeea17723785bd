// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolume describes the data of one PersistentVolumeClaim of the virtual
// storage class: which cluster stores it, which pods mount it, and how a move of
// the data progresses. It has the name of the claim. The system creates and deletes
// it; the verb move writes its spec.
type VirtualVolume struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualVolumeSpec
	Status VirtualVolumeStatus
}

// VirtualVolumeSpec is what is requested of the data.
type VirtualVolumeSpec struct {
	Move *RequestedMove
}

// RequestedMove is a move with its identity.
type RequestedMove struct {
	ID string
	MoveSpec
}

// MoveStrategy is when the pods that use the data are stopped.
type MoveStrategy string

const (
	// MoveOnline copies while the pods run, and stops them for the last pass only.
	MoveOnline MoveStrategy = "Online"
	// MoveOffline stops the pods first, and copies once.
	MoveOffline MoveStrategy = "Offline"
)

// MoveVerification is what is compared before the target is used.
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
	Target                 MoveTarget
	Strategy               MoveStrategy
	Verify                 MoveVerification
	KeepSource             bool
	Bandwidth              *resource.Quantity
	EvictionTimeoutSeconds *int32
}

// MoveTarget is where data is moved to. With neither local nor clusterName the data
// stays in its cluster, and moves to another node or storage class.
type MoveTarget struct {
	Local            bool
	ClusterName      string
	NodeName         string
	StorageClassName string
}

// VirtualVolumePhase is the observed state of the data.
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
	ClusterName      string
	ClusterID        string
	StorageClassName string
	VolumeName       string
	Namespace        string
	ClaimName        string
}

// VirtualVolumeStatus is the observed state of the data.
type VirtualVolumeStatus struct {
	Phase      VirtualVolumePhase
	Location   *VolumeLocation
	Capacity   *resource.Quantity
	MountedBy  []string
	Move       *MoveProgress
	Conditions []metav1.Condition
}

// MovePhase is the step that a move is at. Each is recorded before it begins.
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
	ID                   string
	Phase                MovePhase
	Message              string
	Source               VolumeLocation
	Target               VolumeLocation
	ClaimUID             types.UID
	StartTime            *metav1.Time
	PhaseTime            *metav1.Time
	CompletionTime       *metav1.Time
	Passes               int32
	BytesTotal           int64
	BytesCopied          int64
	FilesTotal           int64
	FilesCopied          int64
	BytesPerSecond       int64
	RemainingSeconds     *int64
	DowntimeMilliseconds *int64
	Cancelled            bool
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolumeList is a list of VirtualVolumes.
type VirtualVolumeList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []VirtualVolume
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Move is the view of a VirtualVolume that the verb move works on: POST moves the
// data, DELETE cancels a move. It carries the name, namespace, uid and
// resourceVersion of its VirtualVolume.
type Move struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   MoveSpec
	Status MoveStatus
}

// MoveStatus is how a move stands.
type MoveStatus struct {
	Progress *MoveProgress
	Plan     *MovePlan
}
