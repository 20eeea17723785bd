// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ephemeralvolume "k8s.io/component-helpers/storage/ephemeral"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// Reasons of pods whose volumes the provider cannot mount yet.
const (
	// ReasonVolumeNotBound means that a claim is not bound: its volume is being created or moved, or is gone. See the
	// events of the claim.
	ReasonVolumeNotBound = "VolumeNotBound"
	// ReasonVolumeOfAnotherCluster means that another cluster stores the data of a claim. Move the data, or let the pod
	// run on that cluster.
	ReasonVolumeOfAnotherCluster = "VolumeOfAnotherCluster"
	// ReasonVolumeOfAnotherNamespace means that the data of a claim is in a remote namespace to which the pod's namespace
	// is not mapped any more. Move the data, or restore the former mapping.
	ReasonVolumeOfAnotherNamespace = "VolumeOfAnotherNamespace"
	// ReasonVolumeOfAnotherPod means that the claim of an ephemeral volume belongs to another pod. Delete the claim.
	ReasonVolumeOfAnotherPod = "VolumeOfAnotherPod"
)

// pvcProtection is the finalizer that keeps a claim while pods use it. Until it is removed, a claim that is being
// deleted can be mounted.
const pvcProtection = "kubernetes.io/pvc-protection"

// VolumeError is the error for a claim that a pod cannot use on the provider.
type VolumeError struct {
	// Reason is one of the reasons ReasonVolume…. Message names the claim and states why it cannot be used.
	Reason, Message string
}

// Error implements error.
func (e *VolumeError) Error() string { return e.Message }

func volumeError(reason, format string, args ...any) error {
	return &VolumeError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// UsedClaim is a claim that a volume of a pod uses. It is in the namespace of the pod.
type UsedClaim struct {
	// Name is the name of the claim.
	Name string
	// Ephemeral is true if the claim belongs to an ephemeral volume, so that it is created and deleted with the pod.
	Ephemeral bool
}

// UsedClaims returns the claims that the volumes of a pod use, each once.
func UsedClaims(pod *corev1.Pod) []UsedClaim {
	var claims []UsedClaim
	for i := range pod.Spec.Volumes {
		if claim := usedClaim(pod, &pod.Spec.Volumes[i]); claim.Name != "" && !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

func usedClaim(pod *corev1.Pod, of *corev1.Volume) UsedClaim {
	switch {
	case of.PersistentVolumeClaim != nil:
		return UsedClaim{Name: of.PersistentVolumeClaim.ClaimName}
	case of.Ephemeral != nil:
		return UsedClaim{Name: ephemeralvolume.VolumeClaimName(pod, of), Ephemeral: true}
	}
	return UsedClaim{}
}

// BoundVolume returns the name of the PersistentVolume that a pod's claim is bound to. It returns a VolumeError in the
// cases in which a kubelet does not mount the volume: the claim is not bound, is being deleted or belongs to another
// pod.
func BoundVolume(pod *corev1.Pod, used UsedClaim, claim *corev1.PersistentVolumeClaim) (string, error) {
	if used.Ephemeral {
		if err := ephemeralvolume.VolumeIsForPod(pod, claim); err != nil {
			return "", volumeError(ReasonVolumeOfAnotherPod,
				"the claim %s of an ephemeral volume was not created for this pod: delete the claim", claim.Name)
		}
	}
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return "", volumeError(ReasonVolumeNotBound, "the claim %s is being deleted", claim.Name)
	case claim.Status.Phase == corev1.ClaimLost:
		return "", volumeError(ReasonVolumeNotBound,
			"the claim %s is Lost: its volume was deleted, or is bound to another claim while it is moved", claim.Name)
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return "", volumeError(ReasonVolumeNotBound, "the claim %s is not bound to a volume yet", claim.Name)
	}
	return claim.Spec.VolumeName, nil
}

// RemoteClaim returns the name of the provider's claim that stores the data of a local claim, whose PersistentVolume is
// the parameter bound. It returns a VolumeError if that volume is bound to another claim, or if its data is not stored
// in the remote namespace with this name on the provider with this cluster id.
func RemoteClaim(
	claim *corev1.PersistentVolumeClaim, bound *corev1.PersistentVolume, clusterID, namespace string,
) (string, error) {
	if ref := bound.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return "", volumeError(ReasonVolumeNotBound,
			"the volume %s of claim %s is bound to another claim, for example while it is moved",
			bound.Name, claim.Name)
	}
	handle, remote, err := volume.HandleOf(bound)
	switch {
	case err != nil:
		return "", volumeError(ReasonVolumeOfAnotherCluster,
			"the volume %s of claim %s does not state where its data is stored: %v", bound.Name, claim.Name, err)
	case !remote:
		return "", volumeError(ReasonVolumeOfAnotherCluster,
			"the data of claim %s is stored in this cluster", claim.Name)
	case handle.ClusterID != clusterID:
		return "", volumeError(ReasonVolumeOfAnotherCluster,
			"the data of claim %s is stored in cluster %s, not in the cluster of this node, %s",
			claim.Name, handle.ClusterID, clusterID)
	case handle.Namespace != namespace:
		return "", volumeError(ReasonVolumeOfAnotherNamespace,
			"the data of claim %s is stored in the remote namespace %s, not in %s",
			claim.Name, handle.Namespace, namespace)
	}
	return handle.Claim, nil
}

// UseRemoteClaims replaces the local claims in the volumes of a shadow pod by the provider's claims. remote maps names
// of local claims to names of the provider's claims; other claims keep their names. Callers use it before the shadow
// pod is created, because its volumes are immutable.
func UseRemoteClaims(shadow *v1alpha1.ShadowPod, pod *corev1.Pod, remote map[string]string) {
	for i := range shadow.Spec.Pod.Volumes {
		of := &shadow.Spec.Pod.Volumes[i]
		name, ok := remote[usedClaim(pod, of).Name]
		switch {
		case !ok:
		case of.Ephemeral != nil:
			of.VolumeSource = corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}
		default:
			of.PersistentVolumeClaim.ClaimName = name
		}
	}
}
