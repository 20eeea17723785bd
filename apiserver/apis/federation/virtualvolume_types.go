// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VirtualVolume represents the data of one PersistentVolumeClaim of the virtual StorageClass: the
// cluster that stores it, the pods that mount it, and the progress of a move.
type VirtualVolume struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualVolumeSpec
	Status VirtualVolumeStatus
}

// VirtualVolumeSpec is the desired location of the data.
type VirtualVolumeSpec struct {
	Move *RequestedMove
}

// RequestedMove is a requested move and its ID.
type RequestedMove struct {
	ID string
	MoveSpec
}

// MoveStrategy determines when the pods that mount the claim are evicted.
type MoveStrategy string

// Values of MoveStrategy, documented in v1alpha1.
const (
	MoveOnline  MoveStrategy = "Online"
	MoveOffline MoveStrategy = "Offline"
)

// MoveVerification selects the files that are compared between source and target before the claim
// is bound to the target.
type MoveVerification string

// Values of MoveVerification, documented in v1alpha1.
const (
	VerifyChanged MoveVerification = "Changed"
	VerifyFull    MoveVerification = "Full"
)

// MoveSpec is a requested move.
type MoveSpec struct {
	Target                 MoveTarget
	Strategy               MoveStrategy
	Verify                 MoveVerification
	KeepSource             bool
	Bandwidth              *resource.Quantity
	EvictionTimeoutSeconds *int32
}

// MoveTarget is the new location of the data.
type MoveTarget struct {
	Local            bool
	ClusterName      string
	NodeName         string
	StorageClassName string
}

// VirtualVolumePhase is the state of the data.
type VirtualVolumePhase string

// Values of VirtualVolumePhase, documented in v1alpha1.
const (
	VirtualVolumePending      VirtualVolumePhase = "WaitingForFirstConsumer"
	VirtualVolumeProvisioning VirtualVolumePhase = "Provisioning"
	VirtualVolumeBound        VirtualVolumePhase = "Bound"
	VirtualVolumeMoving       VirtualVolumePhase = "Moving"
	VirtualVolumeLost         VirtualVolumePhase = "Lost"
)

// Condition types of a VirtualVolume, documented in v1alpha1.
const (
	ConditionVolumeReady = "Ready"
	ConditionVolumeMoved = "Moved"
)

// VolumeLocation is the location of the data of a volume.
type VolumeLocation struct {
	ClusterName      string
	ClusterID        string
	StorageClassName string
	VolumeName       string
	Namespace        string
	ClaimName        string
}

// VirtualVolumeStatus is the observed location and state of the data.
type VirtualVolumeStatus struct {
	Phase      VirtualVolumePhase
	Location   *VolumeLocation
	Capacity   *resource.Quantity
	MountedBy  []string
	Move       *MoveProgress
	Conditions []metav1.Condition
}

// MovePhase is the current step of a move.
type MovePhase string

// Values of MovePhase, documented in v1alpha1.
const (
	MovePreparing   MovePhase = "Preparing"
	MoveCopying     MovePhase = "Copying"
	MoveQuiescing   MovePhase = "Quiescing"
	MoveLocking     MovePhase = "Locking"
	MoveFinalCopy   MovePhase = "FinalCopy"
	MoveSwitching   MovePhase = "Switching"
	MoveReleasing   MovePhase = "Releasing"
	MoveCleaning    MovePhase = "Cleaning"
	MoveRollingBack MovePhase = "RollingBack"
	MoveSucceeded   MovePhase = "Succeeded"
	MoveFailed      MovePhase = "Failed"
	MoveCancelled   MovePhase = "Cancelled"
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

// Move is the body of requests to the verb move of a VirtualVolume, and of their responses.
type Move struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   MoveSpec
	Status MoveStatus
}

// MoveStatus is the observed state of a move, and the plan of a dry run.
type MoveStatus struct {
	Progress *MoveProgress
	Plan     *MovePlan
}
