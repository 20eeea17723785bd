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

// Reasons of pods that wait for a volume.
const (
	// ReasonVolumeNotBound means that a claim is not bound to a volume, or not any more.
	ReasonVolumeNotBound = "VolumeNotBound"
	// ReasonVolumeOfAnotherCluster means that the data of a claim is not stored in the
	// provider of the virtual node.
	ReasonVolumeOfAnotherCluster = "VolumeOfAnotherCluster"
	// ReasonVolumeOfAnotherNamespace means that the provider stores the data of a
	// claim in another namespace than the one that the pod is offloaded to.
	ReasonVolumeOfAnotherNamespace = "VolumeOfAnotherNamespace"
	// ReasonVolumeOfAnotherPod means that the claim of an ephemeral volume was not
	// created for the pod.
	ReasonVolumeOfAnotherPod = "VolumeOfAnotherPod"
)

// pvcProtection is the finalizer that keeps a claim while pods use it. A claim that
// is being deleted can be mounted as long as it has this finalizer.
const pvcProtection = "kubernetes.io/pvc-protection"

// VolumeError is returned for a claim that a pod cannot use on the provider.
type VolumeError struct {
	// Reason is one of the reasons above, and Message names the claim and what is
	// wrong with it.
	Reason, Message string
}

// Error returns the message.
func (e *VolumeError) Error() string { return e.Message }

func volumeError(reason, format string, args ...any) error {
	return &VolumeError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// UsedClaim is a claim that a volume of a pod uses, in the pod's namespace.
type UsedClaim struct {
	// Name is the name of the claim.
	Name string
	// Ephemeral is set if the claim is created for the pod, and deleted with it.
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

// BoundVolume returns the name of the PersistentVolume of a claim that a pod uses. As
// a kubelet does, it returns a VolumeError if the claim is not bound, is being
// deleted, or belongs to another pod.
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

// RemoteClaim returns the name of the provider's claim that stores the data of a bound
// claim. It returns a VolumeError if the volume is not the claim's, or if the data is
// not stored in a namespace of the provider with the given cluster id.
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
			"the volume %s of claim %s stands for no data: %v", bound.Name, claim.Name, err)
	case !remote:
		return "", volumeError(ReasonVolumeOfAnotherCluster,
			"the data of claim %s is stored in this cluster", claim.Name)
	case handle.ClusterID != clusterID:
		return "", volumeError(ReasonVolumeOfAnotherCluster,
			"the data of claim %s is stored in cluster %s, not in this node's, %s",
			claim.Name, handle.ClusterID, clusterID)
	case handle.Namespace != namespace:
		return "", volumeError(ReasonVolumeOfAnotherNamespace,
			"the data of claim %s is stored in the remote namespace %s, not in %s",
			claim.Name, handle.Namespace, namespace)
	}
	return handle.Claim, nil
}

// UseRemoteClaims replaces the claims in the volumes of a shadow pod with the provider's. remote maps local to remote
// names; claims that it lacks are not replaced. The volumes of a shadow pod are immutable afterwards.
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
