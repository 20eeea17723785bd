// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placements

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// StorageClasses of the cluster.
const (
	// VirtualClass is the name of a virtual StorageClass.
	VirtualClass = "liqo"
	// RealClass is the name of a StorageClass of local volumes.
	RealClass = "standard"
	// UnknownClass is a name that no StorageClass has.
	UnknownClass = "unknown"
)

// LocalData is the value of Claim.Data for a volume in the local cluster.
const LocalData = "local"

// StorageClasses returns the StorageClasses of the cluster.
func StorageClasses() []*storagev1.StorageClass {
	class := func(name, provisioner string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
	}
	return []*storagev1.StorageClass{
		class(VirtualClass, v1alpha1.StorageProvisioner), class(RealClass, "driver.example.com"),
	}
}

// Offers are the StorageClasses that each provider offers, by cluster ID.
var Offers = map[string][]string{Milan: {"slow"}, Turin: {"slow", "fast"}, Paris: {"fast"}}

// Claim describes a claim that a pod mounts.
type Claim struct {
	// Name is the name of the claim, and of its volume in the pod.
	Name string
	// Class is the StorageClass of the claim. Empty means that it names none.
	Class string
	// RemoteClass is the provider's StorageClass that the claim requires. Empty means any.
	RemoteClass string
	// Data is the ID of the cluster that stores the data, or LocalData. Empty means that the claim
	// is unbound.
	Data string
	// Move is the ID of the move that prevents pods of the claim from being scheduled. Empty means
	// none.
	Move string
	// CreatedBy is the ID of the move that created the claim. Empty means that a user created it.
	CreatedBy string
	// Missing is true if the claim does not exist.
	Missing bool
	// Ephemeral is true if the claim is a generic ephemeral volume of the pod.
	Ephemeral bool
}

// Mount returns a volume that refers to the claim, for the spec of a pod.
func (c Claim) Mount() corev1.Volume {
	mounted := corev1.Volume{Name: c.Name}
	if c.Ephemeral {
		claim := c.Object("")
		mounted.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Annotations: claim.Annotations}, Spec: claim.Spec,
		}}
		return mounted
	}
	mounted.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}
	return mounted
}

// Object returns the PersistentVolumeClaim in a namespace, or nil if it does not exist.
func (c Claim) Object(namespace string) *corev1.PersistentVolumeClaim {
	if c.Missing {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.Name, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	if c.Class != "" {
		claim.Spec.StorageClassName = &c.Class
	}
	if c.RemoteClass != "" {
		claim.Annotations[v1alpha1.AnnotationRemoteStorageClass] = c.RemoteClass
	}
	if c.Move != "" {
		claim.Annotations[volume.AnnotationMoving] = c.Move
	}
	if c.CreatedBy != "" {
		claim.Labels = map[string]string{volume.LabelMove: c.CreatedBy}
	}
	if c.Data != "" {
		claim.Spec.VolumeName = c.volumeName(namespace)
	}
	return claim
}

// Volume returns the PersistentVolume of the claim in a namespace, or nil if the claim is unbound.
func (c Claim) Volume(namespace string) *corev1.PersistentVolume {
	if c.Data == "" {
		return nil
	}
	bound := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: c.volumeName(namespace)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size,
			StorageClassName: c.Class,
			ClaimRef:         &corev1.ObjectReference{Namespace: namespace, Name: c.Name},
		},
	}
	if c.Data == LocalData {
		bound.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "driver.example.com", VolumeHandle: "1"}
		return bound
	}
	bound.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{
		ClusterID: c.Data, Namespace: "remote", Claim: volume.RemoteClaimName(c.Name, bound.Name),
	})
	bound.Spec.NodeAffinity = volume.RemoteAffinity(c.Data, nil)
	return bound
}

func (c Claim) volumeName(namespace string) string { return "pvc-" + namespace + "-" + c.Name }

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
