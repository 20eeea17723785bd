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

// ShadowVolumeClaim requests a PersistentVolumeClaim of a consumer on a provider. The controllers
// of the consumer create it in a remote namespace, and the controllers of the provider create a
// PersistentVolumeClaim of the same name from it. The claim and its data are kept while the
// consumer is unreachable.
type ShadowVolumeClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata, limited to 64 KiB.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the desired claim, written by the controllers of the consumer.
	Spec ShadowVolumeClaimSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the claim, written by the controllers of the provider.
	// +optional
	Status ShadowVolumeClaimStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// VolumeDeletionPolicy determines what happens to the data when a ShadowVolumeClaim is deleted.
// +enum
type VolumeDeletionPolicy string

const (
	// VolumeDeletionRetain keeps the volume with its data on the provider.
	VolumeDeletionRetain VolumeDeletionPolicy = "Retain"
	// VolumeDeletionDelete deletes the volume with its data once no pod uses it.
	VolumeDeletionDelete VolumeDeletionPolicy = "Delete"
)

// ShadowVolumeClaimSpec is the desired PersistentVolumeClaim on the provider.
type ShadowVolumeClaimSpec struct {
	// storageClassName is a StorageClass of the provider, one of spec.storageClasses of a
	// ResourceOffer that the consumer accepted. It cannot change.
	StorageClassName string `json:"storageClassName" protobuf:"bytes,1,opt,name=storageClassName"`
	// accessModes are the access modes of the claim, at least one. They cannot change.
	// +listType=set
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes" protobuf:"bytes,2,rep,name=accessModes,casttype=k8s.io/api/core/v1.PersistentVolumeAccessMode"`
	// storage is the requested capacity in bytes, for example 10Gi, at most 1Ei. It can grow if the
	// StorageClass permits expansion. After a failed expansion it can shrink to a value above
	// status.capacity.
	Storage resource.Quantity `json:"storage" protobuf:"bytes,3,opt,name=storage"`
	// deletionPolicy determines what happens to the data when this object is deleted. The default
	// is Retain.
	// +optional
	DeletionPolicy VolumeDeletionPolicy `json:"deletionPolicy,omitempty" protobuf:"bytes,4,opt,name=deletionPolicy,casttype=VolumeDeletionPolicy"`
	// fence is the ID of the move that is locking the volume. While it is set, the provider reports
	// in status.fence which pods, apart from the movers, still use the volume. Empty means that no
	// move locks the volume.
	// +optional
	Fence string `json:"fence,omitempty" protobuf:"bytes,5,opt,name=fence"`
	// existing is true if the provider already stores the data of the claim. The provider then uses
	// its existing PersistentVolumeClaim of this name, or a PersistentVolume whose claimRef an
	// administrator set to the claim, and never provisions an empty volume. The default is false. It
	// cannot change.
	// +optional
	Existing bool `json:"existing,omitempty" protobuf:"varint,6,opt,name=existing"`
}

// ShadowVolumeClaimPhase is the state of the claim on the provider.
// +enum
type ShadowVolumeClaimPhase string

const (
	// ShadowVolumeClaimPending means that the claim has no volume yet: it waits for its first pod
	// or for the provisioner.
	ShadowVolumeClaimPending ShadowVolumeClaimPhase = "Pending"
	// ShadowVolumeClaimBound means that the claim is bound to a volume.
	ShadowVolumeClaimBound ShadowVolumeClaimPhase = "Bound"
	// ShadowVolumeClaimLost means that the claim was bound, and that the claim or its volume was
	// deleted since. The provider creates the claim again only if an administrator has prepared a
	// PersistentVolume for it.
	ShadowVolumeClaimLost ShadowVolumeClaimPhase = "Lost"
)

// Condition types of a ShadowVolumeClaim.
const (
	// ConditionVolumeBound is True while the claim is bound to a volume, and False otherwise.
	ConditionVolumeBound = "VolumeBound"
	// ConditionVolumeResized is True while the volume has at least the requested capacity, and
	// False while it is smaller. It exists once the claim is bound.
	ConditionVolumeResized = "VolumeResized"
)

// CauseStorageExceeded is the type of the causes in a 403 response to the creation or change of a
// ShadowVolumeClaim that exceeds the storage quota of its consumer. The response has one cause per
// exhausted resource, with the resource as its field.
const CauseStorageExceeded metav1.CauseType = "StorageExceeded"

// ShadowVolumeClaimStatus is the observed state of a ShadowVolumeClaim.
type ShadowVolumeClaimStatus struct {
	// foreignCluster is the name of the ForeignCluster of the consumer whose storage quota the
	// claim uses until its volume is deleted. The API server sets it at creation. Empty in a
	// namespace that belongs to no consumer.
	// +optional
	ForeignCluster string `json:"foreignCluster,omitempty" protobuf:"bytes,1,opt,name=foreignCluster"`
	// phase is the state of the PersistentVolumeClaim. Empty before the claim is created, or if the
	// provider refuses to create it.
	// +optional
	Phase ShadowVolumeClaimPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=ShadowVolumeClaimPhase"`
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,3,opt,name=observedGeneration"`
	// volumeName is the name of the PersistentVolume on the provider. Empty before the claim was
	// bound.
	// +optional
	VolumeName string `json:"volumeName,omitempty" protobuf:"bytes,4,opt,name=volumeName"`
	// capacity is the actual capacity of the volume in bytes. Empty before the claim was bound.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty" protobuf:"bytes,5,opt,name=capacity"`
	// allocated is the capacity in bytes that the provider has reserved for an incomplete
	// expansion. The largest of spec.storage, capacity and allocated is the quota usage. Empty when
	// no expansion is in progress.
	// +optional
	Allocated *resource.Quantity `json:"allocated,omitempty" protobuf:"bytes,6,opt,name=allocated"`
	// pods are the names of the first 16 pods of the namespace, by name, that mount the claim and
	// have not ended.
	// +optional
	// +listType=atomic
	Pods []string `json:"pods,omitempty" protobuf:"bytes,7,rep,name=pods"`
	// fence lists the pods that still use the volume while spec.fence is set. Empty while
	// spec.fence is empty.
	// +optional
	Fence *VolumeFenceStatus `json:"fence,omitempty" protobuf:"bytes,8,opt,name=fence"`
	// conditions are VolumeBound, which is True while the claim is bound, and VolumeResized, which
	// is False while the volume is smaller than spec.storage.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,9,rep,name=conditions"`
}

// VolumeFenceStatus lists the pods that use a volume that a move is locking. A pod that was deleted
// by force is listed until its node was restarted, or its Node was deleted or has the taint
// node.kubernetes.io/out-of-service, or until the name of the pod is removed from the annotation
// storage.liqo.io/unended-pods of the claim.
type VolumeFenceStatus struct {
	// id is the value that spec.fence had when the provider determined the list users.
	ID string `json:"id" protobuf:"bytes,1,opt,name=id"`
	// users are the names of at most 16 pods, apart from the movers, that use the volume. Empty
	// means that no pod uses it.
	// +optional
	// +listType=atomic
	Users []string `json:"users,omitempty" protobuf:"bytes,2,rep,name=users"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowVolumeClaimList is a list of ShadowVolumeClaims.
type ShadowVolumeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ShadowVolumeClaims.
	Items []ShadowVolumeClaim `json:"items" protobuf:"bytes,2,rep,name=items"`
}
