// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaim is a claim that the provider keeps for a consumer, also while
// the consumer is unreachable. The provider creates a PersistentVolumeClaim of the
// same name in the same namespace. Deleting a ShadowVolumeClaim keeps the data,
// unless spec.deletionPolicy is Delete.
type ShadowVolumeClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the claim that the consumer requests.
	Spec ShadowVolumeClaimSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the claim; only the provider writes it.
	// +optional
	Status ShadowVolumeClaimStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VolumeDeletionPolicy is what happens to the data of a ShadowVolumeClaim when it
// is deleted.
// +enum
type VolumeDeletionPolicy string

const (
	// VolumeDeletionRetain keeps the volume with its data on the provider.
	VolumeDeletionRetain VolumeDeletionPolicy = "Retain"
	// VolumeDeletionDelete deletes the volume and its data once no pod uses it.
	VolumeDeletionDelete VolumeDeletionPolicy = "Delete"
)

// ShadowVolumeClaimSpec is the claim that the consumer requests.
type ShadowVolumeClaimSpec struct {
	// storageClassName is the provider's StorageClass, one of those that its
	// ResourceOffer lists. It cannot change.
	StorageClassName string `json:"storageClassName" protobuf:"bytes,1,opt,name=storageClassName"`
	// accessModes are those of the claim, at least one. They cannot change.
	// +listType=set
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes" protobuf:"bytes,2,rep,name=accessModes,casttype=k8s.io/api/core/v1.PersistentVolumeAccessMode"`
	// storage is the requested capacity in bytes, for example 10Gi. It can grow where
	// the StorageClass allows expansion, and shrink down to the size before an
	// expansion that failed.
	Storage resource.Quantity `json:"storage" protobuf:"bytes,3,opt,name=storage"`
	// deletionPolicy is what happens to the data when this object is deleted:
	// Retain (the default) or Delete.
	// +optional
	DeletionPolicy VolumeDeletionPolicy `json:"deletionPolicy,omitempty" protobuf:"bytes,4,opt,name=deletionPolicy,casttype=VolumeDeletionPolicy"`
	// fence is the id of a move. While it is set the provider reports in
	// status.fence which pods other than the move's own still use the volume.
	// +optional
	Fence string `json:"fence,omitempty" protobuf:"bytes,5,opt,name=fence"`
	// existing means that the claim had a volume before. The provider then uses its
	// claim of this name, or the volume that its administrator prepared for it, and
	// never creates an empty one. It cannot change.
	// +optional
	Existing bool `json:"existing,omitempty" protobuf:"varint,6,opt,name=existing"`
}

// ShadowVolumeClaimPhase is the observed state of the provider's claim.
// +enum
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
	// foreignCluster is the consumer whose quota the claim counts against until
	// its volume is gone. It is set when the object is created, and empty in a
	// namespace that belongs to no consumer.
	// +optional
	ForeignCluster string `json:"foreignCluster,omitempty" protobuf:"bytes,1,opt,name=foreignCluster"`
	// phase is Pending, Bound or Lost; empty before the provider's controllers
	// observed the object.
	// +optional
	Phase ShadowVolumeClaimPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=ShadowVolumeClaimPhase"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,3,opt,name=observedGeneration"`
	// volumeName is the provider's PersistentVolume, once the claim was bound.
	// +optional
	VolumeName string `json:"volumeName,omitempty" protobuf:"bytes,4,opt,name=volumeName"`
	// capacity is the actual size of the volume in bytes, once the claim is bound.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,5,opt,name=capacity"`
	// allocated is the size that the provider reserved for an expansion which is
	// not complete. The largest of spec.storage, capacity and allocated counts against
	// the quota.
	// +optional
	Allocated *resource.Quantity `json:"allocated,omitempty" protobuf:"bytes,6,opt,name=allocated"`
	// pods are the names of the first 16 pods of this namespace that mount the
	// claim and have not ended.
	// +optional
	// +listType=atomic
	Pods []string `json:"pods,omitempty" protobuf:"bytes,7,rep,name=pods"`
	// fence is the answer to spec.fence.
	// +optional
	Fence *VolumeFenceStatus `json:"fence,omitempty" protobuf:"bytes,8,opt,name=fence"`
	// conditions are VolumeBound and VolumeResized.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,9,rep,name=conditions"`
}

// VolumeFenceStatus lists what still uses a volume that is being moved. A pod that
// was deleted by force counts as running until its node reported that it ended.
type VolumeFenceStatus struct {
	// id is the fence that this answers, as in spec.fence.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// users are the names of the first 16 pods, other than those of the move, that
	// still use the volume. Empty means that none does.
	// +optional
	// +listType=atomic
	Users []string `json:"users,omitempty" protobuf:"bytes,2,rep,name=users"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaimList is a list of ShadowVolumeClaims.
type ShadowVolumeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the shadow volume claims.
	Items []ShadowVolumeClaim `json:"items" protobuf:"bytes,2,rep,name=items"`
}
