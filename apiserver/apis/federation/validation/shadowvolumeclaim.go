// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// maxVolumePods is the maximum number of pods in status.pods and in status.fence.users.
const maxVolumePods = 16

var (
	storagePath = specPath.Child("storage")
	classPath   = specPath.Child("storageClassName")
	modesPath   = specPath.Child("accessModes")
	fencePath   = statusPath.Child("fence")
)

// accessModes are the access modes that Kubernetes defines.
var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

// ValidateShadowVolumeClaim validates a new shadow volume claim. A peer writes it, and the
// controllers create a PersistentVolumeClaim of the local cluster from it.
func ValidateShadowVolumeClaim(claim *federation.ShadowVolumeClaim) field.ErrorList {
	errs := metadata(claim, true)
	errs = append(errs, peersMetadata(claim.ObjectMeta)...)
	return append(errs, shadowVolumeClaimSpec(&claim.Spec)...)
}

// ValidateShadowVolumeClaimUpdate validates an update of a shadow volume claim. Fields that are
// immutable in a PersistentVolumeClaim cannot change.
func ValidateShadowVolumeClaimUpdate(claim, old *federation.ShadowVolumeClaim) field.ErrorList {
	errs := metadataUpdate(claim, old)
	errs = append(errs, peersMetadata(claim.ObjectMeta)...)
	errs = append(errs, immutable(claim.Labels[v1alpha1.LabelOrigin], old.Labels[v1alpha1.LabelOrigin],
		metadataPath.Child("labels").Key(v1alpha1.LabelOrigin))...)
	errs = append(errs, shadowVolumeClaimSpec(&claim.Spec)...)
	errs = append(errs, immutable(claim.Spec.StorageClassName, old.Spec.StorageClassName, classPath)...)
	errs = append(errs, immutable(claim.Spec.AccessModes, old.Spec.AccessModes, modesPath)...)
	errs = append(errs, immutable(claim.Spec.Existing, old.Spec.Existing, specPath.Child("existing"))...)
	return append(errs, shrinks(claim, old)...)
}

// ValidateShadowVolumeClaimStatusUpdate validates an update of the status of a shadow volume claim.
func ValidateShadowVolumeClaimStatusUpdate(claim, old *federation.ShadowVolumeClaim) field.ErrorList {
	status := &claim.Status
	errs := metadataUpdate(claim, old)
	errs = append(errs, optional(status.ForeignCluster, statusPath.Child("foreignCluster"), subdomain)...)
	errs = append(errs, onceSet(status.ForeignCluster, old.Status.ForeignCluster, statusPath.Child("foreignCluster"))...)
	errs = append(errs, oneOf(status.Phase, statusPath.Child("phase"), "", federation.ShadowVolumeClaimPending,
		federation.ShadowVolumeClaimBound, federation.ShadowVolumeClaimLost)...)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, optional(status.VolumeName, statusPath.Child("volumeName"), subdomain)...)
	if status.Capacity != nil {
		errs = append(errs, volumeSize(*status.Capacity, statusPath.Child("capacity"))...)
	}
	if status.Allocated != nil {
		errs = append(errs, volumeSize(*status.Allocated, statusPath.Child("allocated"))...)
	}
	errs = append(errs, uniqueNames(status.Pods, maxVolumePods, statusPath.Child("pods"), subdomain)...)
	if status.Fence != nil {
		errs = append(errs, dnsLabel(status.Fence.ID, fencePath.Child("id"))...)
		errs = append(errs, uniqueNames(status.Fence.Users, maxVolumePods, fencePath.Child("users"), subdomain)...)
	}
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

func shadowVolumeClaimSpec(spec *federation.ShadowVolumeClaimSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.StorageClassName == "" {
		errs = append(errs, field.Required(classPath, "must name a storage class that the provider offers"))
	} else {
		errs = append(errs, subdomain(spec.StorageClassName, classPath)...)
	}
	errs = append(errs, claimAccessModes(spec.AccessModes, modesPath)...)
	errs = append(errs, volumeSize(spec.Storage, storagePath)...)
	errs = append(errs, oneOf(spec.DeletionPolicy, specPath.Child("deletionPolicy"),
		federation.VolumeDeletionRetain, federation.VolumeDeletionDelete)...)
	return append(errs, optional(spec.Fence, specPath.Child("fence"), dnsLabel)...)
}

// claimAccessModes validates the access modes of a claim: at least one, and ReadWriteOncePod only
// alone.
func claimAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one access mode")}
	}
	if len(modes) > len(accessModes) {
		return field.ErrorList{field.TooMany(path, len(modes), len(accessModes))}
	}
	var errs field.ErrorList
	for i, mode := range modes {
		errs = append(errs, oneOf(mode, path.Index(i), accessModes...)...)
		if slices.Contains(modes[:i], mode) {
			errs = append(errs, field.Duplicate(path.Index(i), truncate(string(mode))))
		}
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(path, "must not combine ReadWriteOncePod with other access modes"))
	}
	return errs
}

// shrinks validates a reduction of spec.storage: the new value must be above the capacity of the
// volume. Kubernetes has the same rule for claims whose expansion failed.
func shrinks(claim, old *federation.ShadowVolumeClaim) field.ErrorList {
	if claim.Spec.Storage.Cmp(old.Spec.Storage) >= 0 {
		return nil
	}
	switch capacity := old.Status.Capacity; {
	case capacity == nil:
		return field.ErrorList{field.Forbidden(storagePath, "cannot shrink before the claim is bound")}
	case claim.Spec.Storage.Cmp(*capacity) <= 0:
		message := fmt.Sprintf("can shrink only to more than status.capacity, which is %s", capacity)
		return field.ErrorList{field.Forbidden(storagePath, message)}
	}
	return nil
}
