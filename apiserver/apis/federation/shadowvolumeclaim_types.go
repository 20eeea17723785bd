// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaim is a claim that the provider keeps for a consumer, also while
// the consumer is unreachable. The provider creates a PersistentVolumeClaim of the
// same name in the same namespace. Deleting a ShadowVolumeClaim keeps the data,
// unless spec.deletionPolicy is Delete.
type ShadowVolumeClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ShadowVolumeClaimSpec
	Status ShadowVolumeClaimStatus
}

// VolumeDeletionPolicy is what happens to the data of a ShadowVolumeClaim when it
// is deleted.
type VolumeDeletionPolicy string

const (
	// VolumeDeletionRetain keeps the volume with its data on the provider.
	VolumeDeletionRetain VolumeDeletionPolicy = "Retain"
	// VolumeDeletionDelete deletes the volume and its data once no pod uses it.
	VolumeDeletionDelete VolumeDeletionPolicy = "Delete"
)

// ShadowVolumeClaimSpec is the claim that the consumer requests.
type ShadowVolumeClaimSpec struct {
	StorageClassName string
	AccessModes      []corev1.PersistentVolumeAccessMode
	Storage          resource.Quantity
	DeletionPolicy   VolumeDeletionPolicy
	Fence            string
	Existing         bool
}

// ShadowVolumeClaimPhase is the observed state of the provider's claim.
type ShadowVolumeClaimPhase string

const (
	// ShadowVolumeClaimPending means that the claim was accepted and has no volume
	// yet: it was not created yet, or waits for its first pod or its provisioner.
	ShadowVolumeClaimPending ShadowVolumeClaimPhase = "Pending"
	// ShadowVolumeClaimBound means that the claim is bound to a volume.
	ShadowVolumeClaimBound ShadowVolumeClaimPhase = "Bound"
	// ShadowVolumeClaimLost means that the claim was bound once, and the claim or
	// its volume is gone. It is never created again.
	ShadowVolumeClaimLost ShadowVolumeClaimPhase = "Lost"
)

// Condition types of a ShadowVolumeClaim.
const (
	// ConditionVolumeBound is True while the claim is bound to a volume. Otherwise
	// its reason and message say what it waits for.
	ConditionVolumeBound = "VolumeBound"
	// ConditionVolumeResized is False, with the reason and the provider's message,
	// while the volume is smaller than spec.storage.
	ConditionVolumeResized = "VolumeResized"
)

// CauseStorageExceeded is the type of the causes in the answer 403 to a
// ShadowVolumeClaim for which the consumer's storage quota has no room. Their
// fields name the exhausted resources.
const CauseStorageExceeded metav1.CauseType = "StorageExceeded"

// ShadowVolumeClaimStatus is the observed state of a ShadowVolumeClaim.
type ShadowVolumeClaimStatus struct {
	ForeignCluster     string
	Phase              ShadowVolumeClaimPhase
	ObservedGeneration int64
	VolumeName         string
	Capacity           *resource.Quantity
	Allocated          *resource.Quantity
	Pods               []string
	Fence              *VolumeFenceStatus
	Conditions         []metav1.Condition
}

// VolumeFenceStatus lists what still uses a volume that is being moved. A pod that
// was deleted by force counts as running until its node reported that it ended.
type VolumeFenceStatus struct {
	ID    string
	Users []string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaimList is a list of ShadowVolumeClaims.
type ShadowVolumeClaimList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ShadowVolumeClaim
}
