// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// maxVolumes is the maximum length of volumes in a plan.
const maxVolumes = 100

// storedBy returns the volumes that the provider with this ForeignCluster stores, each with the policy
// for its namespace.
func storedBy(
	cluster string, volumes []*v1alpha1.VirtualVolume, policy func(namespace string) v1alpha1.UnoffloadPolicy,
) []v1alpha1.PlannedVolume {
	var found []v1alpha1.PlannedVolume
	for _, volume := range volumes {
		if at := volume.Status.Location; at == nil || at.ClusterName != cluster {
			continue
		}
		found = append(found, v1alpha1.PlannedVolume{
			Name: volume.Name, Namespace: volume.Namespace, ClusterName: cluster, Capacity: volume.Status.Capacity,
			OnUnoffload: cmp.Or(policy(volume.Namespace), v1alpha1.UnoffloadRefuse),
		})
	}
	return found
}

// firstVolumes sorts volumes by cluster, namespace and name, and returns the first maxVolumes of them.
func firstVolumes(volumes []v1alpha1.PlannedVolume) []v1alpha1.PlannedVolume {
	slices.SortFunc(volumes, func(a, b v1alpha1.PlannedVolume) int {
		return cmp.Or(cmp.Compare(a.ClusterName, b.ClusterName), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name,
			b.Name))
	})
	return volumes[:min(len(volumes), maxVolumes)]
}

// Claims are the claims of a namespace and the StorageClasses by which they are classified.
type Claims struct {
	// Claims are the PersistentVolumeClaims of the namespace.
	Claims []*corev1.PersistentVolumeClaim
	// Classes are all StorageClasses of the local cluster.
	Classes []*storagev1.StorageClass
}

// BindLocally reports whether a pod mounts a claim without a virtual StorageClass, whose data can be
// used only in the local cluster.
func (c Claims) BindLocally(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		switch {
		case volume.PersistentVolumeClaim != nil:
			claim := c.find(volume.PersistentVolumeClaim.ClaimName)
			return claim != nil && !c.virtual(claim.Spec.StorageClassName)
		case volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil:
			return !c.virtual(volume.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName)
		}
		return false
	})
}

// Lack reports whether a pod mounts a claim that does not exist in the local cluster. The claim may
// exist in the remote namespace.
func (c Claims) Lack(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil && c.find(volume.PersistentVolumeClaim.ClaimName) == nil
	})
}

func (c Claims) find(name string) *corev1.PersistentVolumeClaim {
	for _, claim := range c.Claims {
		if claim.Name == name {
			return claim
		}
	}
	return nil
}

// virtual reports whether the StorageClass with this name is virtual. If name is nil, it examines the default
// StorageClass instead, the newest if there are several.
func (c Claims) virtual(name *string) bool {
	var chosen *storagev1.StorageClass
	for _, class := range c.Classes {
		switch {
		case name != nil && class.Name == *name:
			return class.Provisioner == v1alpha1.StorageProvisioner
		case name == nil && class.Annotations[defaultClassAnnotation] == "true" &&
			(chosen == nil || chosen.CreationTimestamp.Before(&class.CreationTimestamp)):
			chosen = class
		}
	}
	return ptr.Deref(chosen, storagev1.StorageClass{}).Provisioner == v1alpha1.StorageProvisioner
}

// defaultClassAnnotation is the annotation of a default StorageClass, with value "true".
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"
