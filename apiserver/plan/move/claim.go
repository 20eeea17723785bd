// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// protection is the finalizer with which Kubernetes protects claims in use.
const protection = "kubernetes.io/pvc-protection"

// federationFinalizers are the prefixes of finalizers that the federation sets.
var federationFinalizers = []string{"storage.liqo.io/", "federation.liqo.io/"}

// claim returns the reasons in the claim and its volume that prevent a move to any target.
func (r Request) claim() field.ErrorList {
	claim := r.Claim
	ready := meta.FindStatusCondition(r.Volume.Status.Conditions, v1alpha1.ConditionVolumeReady)
	if ready == nil {
		ready = &metav1.Condition{}
	}
	switch {
	case claim == nil:
		return r.refuse("no PersistentVolumeClaim has this name; create it again first")
	case claim.DeletionTimestamp != nil:
		return r.refuse("the claim is being deleted; create it again first")
	case claim.Status.Phase == corev1.ClaimLost || r.Volume.Status.Phase == v1alpha1.VirtualVolumeLost:
		return r.refuse("the claim is Lost: %s; restore the data into another claim",
			strings.TrimSuffix(cmp.Or(ready.Message, "its volume and the data no longer exist"), "."))
	case ready.Reason == v1alpha1.ReasonShadowVolumeClaimMissing:
		return r.refuse("its data cannot be read: %s; wait until the condition Ready of its VirtualVolume is True",
			strings.TrimSuffix(ready.Message, "."))
	case claim.Status.Phase != corev1.ClaimBound:
		return r.refuse("the claim is %s; wait until a pod uses it and it is Bound", claim.Status.Phase)
	case r.PersistentVolume == nil:
		return r.refuse("its PersistentVolume %s does not exist; restore the data into another claim",
			claim.Spec.VolumeName)
	case r.PersistentVolume.DeletionTimestamp != nil:
		return r.refuse("its PersistentVolume %s is being deleted; restore the data into another claim",
			r.PersistentVolume.Name)
	case r.PersistentVolume.Spec.ClaimRef == nil || r.PersistentVolume.Spec.ClaimRef.UID != claim.UID:
		return r.refuse("its PersistentVolume %s is bound to another claim; wait until that is resolved",
			r.PersistentVolume.Name)
	}
	errs := r.class()
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem {
		errs = append(errs, r.refuse("volumeMode %s cannot be moved, only Filesystem; "+
			"copy the data with a pod that mounts this claim and another one", *claim.Spec.VolumeMode)...)
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "Pod" && owner.APIVersion == "v1" {
			errs = append(errs, r.refuse("pod %s owns the claim, which is deleted with the pod; "+
				"move only claims that no pod owns", owner.Name)...)
		}
	}
	for _, finalizer := range claim.Finalizers {
		if !tolerated(finalizer) {
			errs = append(errs, r.refuse("finalizer %s prevents the move from deleting the claim and creating it again; "+
				"have the controller of the finalizer remove it first", finalizer)...)
		}
	}
	if r.expanding() {
		errs = append(errs, r.refuse("the claim is being expanded; wait until its capacity is the requested size")...)
	}
	if r.Spec.Strategy == v1alpha1.MoveOnline && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		errs = append(errs, invalid(strategyPath, string(r.Spec.Strategy),
			"copies while a pod mounts the claim, and ReadWriteOncePod permits only one pod; use Offline"))
	}
	return errs
}

// class returns an error unless the claim has a virtual StorageClass.
func (r Request) class() field.ErrorList {
	name := ptr.Deref(r.Claim.Spec.StorageClassName, "")
	class := r.findClass(name)
	switch {
	case class == nil:
		return r.refuse("its StorageClass %q does not exist; create it again, with provisioner %s", name,
			v1alpha1.StorageProvisioner)
	case class.Provisioner != v1alpha1.StorageProvisioner:
		return r.refuse("its StorageClass %s has provisioner %s; only claims of provisioner %s can be moved", name,
			class.Provisioner, v1alpha1.StorageProvisioner)
	}
	return nil
}

func (r Request) findClass(name string) *storagev1.StorageClass {
	for _, class := range r.Classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// tolerated reports whether a finalizer does not prevent a move, which deletes the claim and creates it
// again.
func tolerated(finalizer string) bool {
	return finalizer == protection || finalizer == volume.Finalizer ||
		slices.ContainsFunc(federationFinalizers, func(prefix string) bool { return strings.HasPrefix(finalizer, prefix) })
}

// expanding reports whether the volume of the claim is smaller than requested and may be expanded. A local volume whose
// StorageClass does not allow expansion is not expanded: the target of the move then has the requested size.
func (r Request) expanding() bool {
	claim := r.Claim
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	actual := claim.Status.Capacity[corev1.ResourceStorage]
	own := r.findClass(r.PersistentVolume.Annotations[volume.AnnotationStorageClass])
	refused := own != nil && !ptr.Deref(own.AllowVolumeExpansion, false)
	return requested.Cmp(actual) > 0 && !refused || len(claim.Status.AllocatedResourceStatuses) > 0 ||
		slices.ContainsFunc(claim.Status.Conditions, func(condition corev1.PersistentVolumeClaimCondition) bool {
			resizing := condition.Type == corev1.PersistentVolumeClaimResizing ||
				condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending
			return resizing && condition.Status == corev1.ConditionTrue
		})
}

func invalid(path *field.Path, value any, format string, args ...any) *field.Error {
	return field.Invalid(path, value, fmt.Sprintf(format, args...))
}
