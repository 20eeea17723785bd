// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// Claim is a PersistentVolumeClaim or an ephemeral volume of a pod, with its stored objects at the time
// of the decision.
type Claim struct {
	// Name is the name of the claim. For an ephemeral volume it is the name of the volume in the pod.
	Name string
	// Object is the claim, or nil if it does not exist. For an ephemeral volume it has metadata and
	// spec of the claim template.
	Object *corev1.PersistentVolumeClaim
	// Provisioner is the provisioner of the claim's StorageClass, or empty if the StorageClass is
	// unknown.
	Provisioner string
	// Volume is the PersistentVolume in spec.volumeName of the claim, or nil if it does not exist.
	Volume *corev1.PersistentVolume
}

// site is the set of clusters in which a claim permits its pods to run.
type site int

const (
	// anySite permits every cluster: the claim has a virtual StorageClass and no volume yet, or its data is being moved
	// and its pods wait for the move.
	anySite site = iota
	// localSite permits only the local cluster: the claim has another StorageClass or a local volume, or does not
	// exist.
	localSite
	// remoteSite permits only the provider that stores the data. The scheduler ensures this by the node affinity of the
	// PersistentVolume.
	remoteSite
)

// site returns where the claim permits pods of its namespace to run.
func (c Claim) site(namespace string) site {
	switch {
	case c.moving() != "":
		return anySite
	case c.bound(namespace) && c.onProvider():
		return remoteSite
	case c.Object != nil && !c.bound(namespace) && c.Provisioner == v1alpha1.StorageProvisioner:
		return anySite
	}
	return localSite
}

// moving returns the ID of the move for which new pods of the claim wait, or an empty string.
func (c Claim) moving() string {
	if c.Object == nil {
		return ""
	}
	return c.Object.Annotations[volume.AnnotationMoving]
}

// createdBy returns the ID of the move that created the claim, or an empty string for a claim of a
// user.
func (c Claim) createdBy() string {
	if c.Object == nil {
		return ""
	}
	return c.Object.Labels[volume.LabelMove]
}

// bound reports whether the PersistentVolume is bound to the claim, by spec.claimRef.
func (c Claim) bound(namespace string) bool {
	if c.Volume == nil || c.Volume.Spec.ClaimRef == nil {
		return false
	}
	reference := c.Volume.Spec.ClaimRef
	return reference.Namespace == namespace && reference.Name == c.Name
}

// onProvider reports whether a provider stores the data of the volume. It also returns true for a volume with the CSI
// driver v1alpha1.StorageProvisioner and a malformed handle.
func (c Claim) onProvider() bool {
	_, remote, err := volume.HandleOf(c.Volume)
	return remote || err != nil
}

// isVirtual reports whether the claim has a virtual StorageClass, so that its data can be moved.
func (c Claim) isVirtual() bool {
	if c.Volume != nil && c.Volume.Annotations[volume.AnnotationStorageClass] != "" {
		return true
	}
	return c.Provisioner == v1alpha1.StorageProvisioner
}

// remoteClass returns the StorageClass that a provider must offer to run pods of the claim, from its
// annotation liqo.io/remote-storage-class. It returns an empty string without the annotation, or if the
// claim has a volume or is being moved.
func (c Claim) remoteClass(namespace string) string {
	if c.site(namespace) != anySite || c.moving() != "" {
		return ""
	}
	return c.Object.Annotations[v1alpha1.AnnotationRemoteStorageClass]
}
