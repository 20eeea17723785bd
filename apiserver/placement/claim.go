// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// Claim is a claim that a pod mounts, as the API server stores it at that moment.
type Claim struct {
	// Name is the name of the claim, or of an ephemeral volume.
	Name string
	// Object is the claim; nil if it does not exist. For an ephemeral volume it has the
	// metadata and spec of the template.
	Object *corev1.PersistentVolumeClaim
	// Provisioner is the provisioner of the claim's StorageClass; empty if the class is unknown.
	Provisioner string
	// Volume is the PersistentVolume that the claim names; nil if there is none.
	Volume *corev1.PersistentVolume
}

// site is where a claim lets its pod run.
type site int

const (
	// anySite leaves the choice to the first pod, or to the claim's move.
	anySite site = iota
	// localSite is the local cluster.
	localSite
	// remoteSite is the provider that stores the data. The affinity of the volume
	// confines the pod to it.
	remoteSite
)

// site returns where the claim lets a pod of a namespace run.
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

// moving returns the id of the move that holds back pods of the claim; empty if there is
// none.
func (c Claim) moving() string {
	if c.Object == nil {
		return ""
	}
	return c.Object.Annotations[volume.AnnotationMoving]
}

// createdBy returns the id of the move that created the claim; empty for a user's claim.
func (c Claim) createdBy() string {
	if c.Object == nil {
		return ""
	}
	return c.Object.Labels[volume.LabelMove]
}

// bound reports whether the volume is the claim's.
func (c Claim) bound(namespace string) bool {
	if c.Volume == nil || c.Volume.Spec.ClaimRef == nil {
		return false
	}
	reference := c.Volume.Spec.ClaimRef
	return reference.Namespace == namespace && reference.Name == c.Name
}

// onProvider reports whether a provider stores the data of the volume, also where its
// handle is malformed.
func (c Claim) onProvider() bool {
	_, remote, err := volume.HandleOf(c.Volume)
	return remote || err != nil
}

// isVirtual reports whether the claim is of a virtual storage class, whose data can be
// moved.
func (c Claim) isVirtual() bool {
	if c.Volume != nil && c.Volume.Annotations[volume.AnnotationStorageClass] != "" {
		return true
	}
	return c.Provisioner == v1alpha1.StorageProvisioner
}

// remoteClass returns the storage class that a provider has to offer for the claim, which
// is not provisioned yet; empty if the claim requires none by name.
func (c Claim) remoteClass(namespace string) string {
	if c.site(namespace) != anySite || c.moving() != "" {
		return ""
	}
	return c.Object.Annotations[v1alpha1.AnnotationRemoteStorageClass]
}
