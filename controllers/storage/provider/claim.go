// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// claimFor returns the claim of a ShadowVolumeClaim in a remote namespace. The labels of the
// namespace determine which consumer it belongs to, not labels that a peer writes.
func claimFor(shadow *v1alpha1.ShadowVolumeClaim, namespace *corev1.Namespace) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: shadow.Name, Namespace: shadow.Namespace,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
				v1alpha1.LabelForeignCluster: namespace.Labels[v1alpha1.LabelForeignCluster],
				v1alpha1.LabelOrigin:         namespace.Labels[v1alpha1.LabelOrigin],
				v1alpha1.LabelDestination:    namespace.Labels[v1alpha1.LabelDestination],
			},
			Annotations: map[string]string{
				v1alpha1.AnnotationOriginNamespace: namespace.Annotations[v1alpha1.AnnotationOriginNamespace],
				volume.AnnotationOriginClaim:       shadow.Annotations[volume.AnnotationOriginClaim],
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      shadow.Spec.AccessModes,
			StorageClassName: ptr.To(shadow.Spec.StorageClassName),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: shadow.Spec.Storage},
			},
		},
	}
}

// isShadowClaim reports whether a claim was created for a ShadowVolumeClaim.
func isShadowClaim(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && claim.Labels[v1alpha1.LabelForeignCluster] != ""
}

// own reports whether the claim was created for this ShadowVolumeClaim, or for a former one with the
// same name, consumer and claim of the consumer, for example before a restore of the store. With
// spec.existing the claim of the consumer may differ: the claim may have been created for a move.
func (o *observed) own() bool {
	if o.claim == nil {
		return false
	}
	wanted := claimFor(o.shadow, o.namespace)
	return isShadowClaim(o.claim) &&
		o.claim.Labels[v1alpha1.LabelForeignCluster] == wanted.Labels[v1alpha1.LabelForeignCluster] &&
		o.claim.Labels[v1alpha1.LabelOrigin] == wanted.Labels[v1alpha1.LabelOrigin] &&
		(o.shadow.Spec.Existing ||
			o.claim.Annotations[volume.AnnotationOriginClaim] == wanted.Annotations[volume.AnnotationOriginClaim])
}

// wasBound reports whether the claim was bound before: according to spec.existing, to the status, or,
// if the claim is missing, to a volume that was bound to a claim of this name.
func (o *observed) wasBound() bool {
	return o.shadow.Spec.Existing || o.shadow.Status.VolumeName != "" ||
		o.shadow.Status.Phase == v1alpha1.ShadowVolumeClaimLost || o.claim == nil && o.pv != nil
}

// creatable reports whether the claim is to be created. A claim that was bound before is created again
// only if an administrator prepared a volume for it: otherwise it would get an empty one.
func (o *observed) creatable() bool { return o.claim == nil && (!o.wasBound() || o.prepared != "") }

// preparedVolume returns the name of the volume, among those that name a claim, that an
// administrator prepared for it; empty if there is none.
func preparedVolume(pvs []corev1.PersistentVolume) string {
	for i := range pvs {
		if ref := pvs[i].Spec.ClaimRef; ref != nil && ref.UID == "" {
			return pvs[i].Name
		}
	}
	return ""
}

// volumeOf returns the volume that is or was bound to the claim, among those that name it; nil if there
// is none. For an own claim, it names the UID of the claim. Otherwise it is the volume in the status,
// or any volume if neither a claim nor a status exists. A volume that names no UID was prepared by an
// administrator and is not bound.
func (o *observed) volumeOf(pvs []corev1.PersistentVolume) *corev1.PersistentVolume {
	for i := range pvs {
		pv := &pvs[i]
		ref := pv.Spec.ClaimRef
		switch {
		case ref == nil || ref.UID == "":
		case o.claim != nil && o.own() == (ref.UID == o.claim.UID) && (o.own() || o.shadow.Status.VolumeName == pv.Name):
			return pv
		case o.claim == nil && (o.shadow.Status.VolumeName == "" || o.shadow.Status.VolumeName == pv.Name):
			return pv
		}
	}
	return nil
}

// retained returns a volume that is kept when its claim is deleted, with the label of its consumer
// and its former reclaim policy.
func retained(pv *corev1.PersistentVolume, foreignCluster string) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	if pv.Labels[v1alpha1.LabelForeignCluster] != foreignCluster {
		metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.LabelForeignCluster, foreignCluster)
	}
	if pv.Annotations[volume.AnnotationReclaimPolicy] == "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationReclaimPolicy,
			string(pv.Spec.PersistentVolumeReclaimPolicy))
	}
	wanted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return wanted
}

// handedBack returns a volume with its former reclaim policy.
func handedBack(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	policy := pv.Annotations[volume.AnnotationReclaimPolicy]
	wanted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(policy)
	return wanted
}

// deletesData reports whether a volume was provisioned with the reclaim policy Delete.
func deletesData(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[volume.AnnotationReclaimPolicy] == string(corev1.PersistentVolumeReclaimDelete)
}

// provisioning reports whether the claim waits for its volume, and not for a pod.
func (o *observed) provisioning() bool {
	switch {
	case o.claim.Status.Phase == corev1.ClaimBound, o.claim.Status.Phase == corev1.ClaimLost, o.class == nil:
		return false
	}
	return o.claim.Spec.VolumeName != "" || !o.waitsForPod()
}

func (o *observed) waitsForPod() bool {
	mode := ptr.Deref(o.class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	return mode == storagev1.VolumeBindingWaitForFirstConsumer &&
		o.claim.Annotations[volume.AnnotationSelectedNode] == ""
}
