// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaim requests a PersistentVolumeClaim of a consumer on a provider.
type ShadowVolumeClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ShadowVolumeClaimSpec
	Status ShadowVolumeClaimStatus
}

// VolumeDeletionPolicy determines what happens to the data when a ShadowVolumeClaim is deleted.
type VolumeDeletionPolicy string

// Values of VolumeDeletionPolicy, documented in v1alpha1.
const (
	VolumeDeletionRetain VolumeDeletionPolicy = "Retain"
	VolumeDeletionDelete VolumeDeletionPolicy = "Delete"
)

// ShadowVolumeClaimSpec is the desired PersistentVolumeClaim on the provider.
type ShadowVolumeClaimSpec struct {
	StorageClassName string
	AccessModes      []corev1.PersistentVolumeAccessMode
	Storage          resource.Quantity
	DeletionPolicy   VolumeDeletionPolicy
	Fence            string
	Existing         bool
}

// ShadowVolumeClaimPhase is the state of the claim on the provider.
type ShadowVolumeClaimPhase string

// Values of ShadowVolumeClaimPhase, documented in v1alpha1.
const (
	ShadowVolumeClaimPending ShadowVolumeClaimPhase = "Pending"
	ShadowVolumeClaimBound   ShadowVolumeClaimPhase = "Bound"
	ShadowVolumeClaimLost    ShadowVolumeClaimPhase = "Lost"
)

// Condition types of a ShadowVolumeClaim, documented in v1alpha1.
const (
	ConditionVolumeBound   = "VolumeBound"
	ConditionVolumeResized = "VolumeResized"
)

// CauseStorageExceeded is the type of the causes in a 403 response to the creation or change of a
// ShadowVolumeClaim that exceeds the storage quota of its consumer.
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

// VolumeFenceStatus lists the pods that use a volume while spec.fence of its claim is set.
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
