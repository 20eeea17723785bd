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

// Storage classes of the cluster.
const (
	// VirtualClass is a virtual storage class.
	VirtualClass = "liqo"
	// RealClass is a storage class of local volumes.
	RealClass = "standard"
	// UnknownClass is the name of no storage class.
	UnknownClass = "unknown"
)

// LocalData is the Data of a claim whose volume is in the local cluster.
const LocalData = "local"

// StorageClasses returns the storage classes of the cluster.
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

// Offers are the storage classes that each provider offers.
var Offers = map[string][]string{Milan: {"slow"}, Turin: {"slow", "fast"}, Paris: {"fast"}}

// Claim is a claim of a pod.
type Claim struct {
	// Name is that of the claim and of its volume in the pod.
	Name string
	// Class is its storage class; empty names none.
	Class string
	// RemoteClass is the class that it requires of a provider, if any.
	RemoteClass string
	// Data is the id of the cluster that stores its data, or LocalData; empty is an unbound
	// claim.
	Data string
	// Move is the id of the move that holds its pods back, if any.
	Move string
	// CreatedBy is the id of the move that created it, if any.
	CreatedBy string
	// Missing is true for a claim that does not exist.
	Missing bool
	// Ephemeral is true for an ephemeral volume.
	Ephemeral bool
}

// Mount returns the volume of a pod that mounts the claim.
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

// Object returns the claim in a namespace; nil if it does not exist.
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

// Volume returns the PersistentVolume of the claim in a namespace; nil if it is unbound.
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
