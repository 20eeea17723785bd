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

// claimFor returns the claim to create for a ShadowVolumeClaim. The labels of its namespace, which peers cannot write,
// determine the consumer in the labels of the claim.
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

// own reports whether the claim was created for this ShadowVolumeClaim. It accepts a claim that was created for
// an earlier ShadowVolumeClaim of the same name, consumer and claim on the consumer, for example before the
// federation's store was restored. With spec.existing, the claim on the consumer may differ, because a move may
// have created the ShadowVolumeClaim.
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

// wasBound reports whether the claim was bound before: spec.existing or the status states that, or the claim does not
// exist and a volume was bound to it.
func (o *observed) wasBound() bool {
	return o.shadow.Spec.Existing || o.shadow.Status.VolumeName != "" ||
		o.shadow.Status.Phase == v1alpha1.ShadowVolumeClaimLost || o.claim == nil && o.pv != nil
}

// creatable reports whether the claim does not exist and may be created. A claim that was bound before is created again
// only if an administrator prepared a volume for it, because Kubernetes would otherwise bind it to an empty volume.
func (o *observed) creatable() bool { return o.claim == nil && (!o.wasBound() || o.prepared != "") }

// preparedVolume returns the name of a volume whose claimRef has the claim's name and no UID, as an administrator
// prepares it; empty if there is none. pvs are the volumes that name the claim.
func preparedVolume(pvs []corev1.PersistentVolume) string {
	for i := range pvs {
		if ref := pvs[i].Spec.ClaimRef; ref != nil && ref.UID == "" {
			return pvs[i].Name
		}
	}
	return ""
}

// volumeOf returns the volume that is or was bound to the claim; nil if there is none. pvs are the volumes
// whose claimRef has the name of the claim; those without a UID in the claimRef were never bound. If own
// returns true, the claimRef of the result has the UID of the claim. Otherwise, the result is the volume that
// the status names, or any of pvs if the claim does not exist and the status names none.
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

// retained returns a volume with reclaim policy Retain, the label of its consumer and its earlier reclaim policy in an
// annotation.
func retained(pv *corev1.PersistentVolume, foreignCluster string) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	if pv.Labels[v1alpha1.LabelForeignCluster] != foreignCluster {
		metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.LabelForeignCluster, foreignCluster)
	}
	// The ShadowVolumeClaim counts instead, if an administrator bound the volume again.
	delete(wanted.Labels, volume.LabelRetained)
	if pv.Annotations[volume.AnnotationReclaimPolicy] == "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationReclaimPolicy,
			string(pv.Spec.PersistentVolumeReclaimPolicy))
	}
	wanted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return wanted
}

// counted returns a volume with the labels by which it counts towards the storage quota of its consumer without a
// ShadowVolumeClaim.
func counted(pv *corev1.PersistentVolume, foreignCluster string) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	for key, value := range volume.Retained(foreignCluster) {
		metav1.SetMetaDataLabel(&wanted.ObjectMeta, key, value)
	}
	return wanted
}

// handedBack returns a volume with the reclaim policy that it had before it was retained.
func handedBack(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	policy := pv.Annotations[volume.AnnotationReclaimPolicy]
	wanted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(policy)
	return wanted
}

// deletesData reports whether a volume had the reclaim policy Delete before it was retained.
func deletesData(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[volume.AnnotationReclaimPolicy] == string(corev1.PersistentVolumeReclaimDelete)
}

// provisioning reports whether the claim waits for a provisioner, and not for its first pod.
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
