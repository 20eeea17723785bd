// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume has the rules for claims of virtual StorageClasses that several components share: the
// names of their claims on providers, their PersistentVolumes and the selection of StorageClasses. Its
// functions are pure.
package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Annotations of PersistentVolumes that are bound to claims of virtual StorageClasses or of ShadowVolumeClaims, and of
// these claims.
const (
	// AnnotationStorageClass is the StorageClass with which the volume was provisioned, in the local cluster or on the
	// provider that stores its data. While a claim is bound to the volume, spec.storageClassName of the volume is the
	// virtual StorageClass. For a local volume, the controllers restore the original after the claim is deleted.
	AnnotationStorageClass = "storage.liqo.io/storage-class"
	// AnnotationReclaimPolicy is the reclaim policy of a volume that its StorageClass or an
	// administrator selected. The controllers set the actual policy to Retain while the volume is in
	// use, and restore this policy afterwards.
	AnnotationReclaimPolicy = "storage.liqo.io/reclaim-policy"
	// AnnotationProvisionedBy is the annotation of Kubernetes with the provisioner of a
	// PersistentVolume.
	AnnotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// AnnotationSelectedNode is the annotation of Kubernetes with the node that the scheduler selected
	// for the first pod of a claim.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnotationStorageProvisioner is the annotation of Kubernetes with the provisioner that a claim
	// waits for.
	AnnotationStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
)

// MoverRequests returns the CPU and memory requests of a mover.
func MoverRequests() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
}

// Labels and annotations on claims, pods and Services. Users set AnnotationLocalStorageClass, and the controllers all
// others.
const (
	// LabelMove is the ID of the move that created a claim, a pod or a Service. A claim with this label has no
	// VirtualVolume, and a pod with it does not get the scheduling gate of its move. As the key of an annotation, it is
	// set on the source and the target volume while a move uses them, with a record of the move in JSON.
	LabelMove = "storage.liqo.io/move"
	// AnnotationMoving, on a claim whose data is being moved, is the ID of the move. New pods that
	// mount the claim get a scheduling gate until the move has ended.
	AnnotationMoving = "storage.liqo.io/moving"
	// AnnotationLocalStorageClass, on a claim of a virtual StorageClass, is the StorageClass for a
	// volume in the local cluster. It overrides the parameter localStorageClassName of the virtual
	// StorageClass.
	AnnotationLocalStorageClass = "storage.liqo.io/local-storage-class"
	// AnnotationOriginClaim, on a ShadowVolumeClaim and its PersistentVolumeClaim, is the name of the
	// claim on the consumer.
	AnnotationOriginClaim = "storage.liqo.io/origin-claim"
)

// LabelRetained has the value "true" on a PersistentVolume of a provider that keeps data after its ShadowVolumeClaim
// was deleted. The volume counts towards the storage quota of the consumer in its label v1alpha1.LabelForeignCluster
// until an administrator of the provider deletes the volume or removes that label. The controllers set it.
const LabelRetained = "storage.liqo.io/retained"

// Retained returns the labels of the PersistentVolumes that a provider retains for a consumer. foreignCluster is the
// name of the consumer's ForeignCluster.
func Retained(foreignCluster string) map[string]string {
	return map[string]string{LabelRetained: "true", v1alpha1.LabelForeignCluster: foreignCluster}
}

// Finalizer prevents the deletion of a PersistentVolume until the controllers have deleted its ShadowVolumeClaim on the
// provider, unless the peering has ended, or, for a local volume, have restored its StorageClass and reclaim policy.
const Finalizer = "storage.liqo.io/volume"

const (
	volumePrefix = "pvc-"
	// hashLength is the number of hexadecimal digits of the hash in RemoteClaimName.
	hashLength = 8
	// maxName is the maximum length of the name of a claim, a DNS subdomain.
	maxName = validation.DNS1123SubdomainMaxLength
)

// VolumeName returns the name of the PersistentVolume that is provisioned for the claim with this UID.
// It has the same form as the names by other provisioners, pvc-<UID>.
func VolumeName(claim types.UID) string { return volumePrefix + string(claim) }

// RemoteClaimName returns the name of the claim on a provider, from the names of the local claim and
// its PersistentVolume. It is the name of the local claim, truncated if necessary, and a hash of the
// name of the volume. Because of the hash, a later claim of the same name does not get a volume that
// the provider retained.
func RemoteClaimName(claim, volume string) string {
	sum := sha256.Sum256([]byte(volume))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	if len(claim) > maxName-len(suffix) {
		claim = strings.TrimRight(claim[:maxName-len(suffix)], "-.")
	}
	return claim + suffix
}

// Handle identifies the claim on a provider that stores the data of a local PersistentVolume.
type Handle struct {
	// ClusterID is the cluster ID of the provider.
	ClusterID string
	// Namespace is the remote namespace on the provider.
	Namespace string
	// Claim is the name of the claim and of its ShadowVolumeClaim on the provider.
	Claim string
}

// String returns spec.csi.volumeHandle of the PersistentVolume: <cluster ID>/<namespace>/<claim>.
func (h Handle) String() string { return h.ClusterID + "/" + h.Namespace + "/" + h.Claim }

// ParseHandle parses a volume handle that String returned. It fails if a part is malformed, with an
// error that names the part.
func ParseHandle(handle string) (Handle, error) {
	parts := strings.Split(handle, "/")
	if len(parts) != 3 {
		return Handle{}, fmt.Errorf("volume handle %q must be cluster/namespace/claim", handle)
	}
	if parts[0] == "" {
		return Handle{}, fmt.Errorf("volume handle %q has no cluster id", handle)
	}
	if problems := validation.IsDNS1123Label(parts[1]); len(problems) > 0 {
		return Handle{}, fmt.Errorf("volume handle %q has no valid namespace: %s", handle, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Subdomain(parts[2]); len(problems) > 0 {
		return Handle{}, fmt.Errorf("volume handle %q has no valid claim: %s", handle, strings.Join(problems, "; "))
	}
	return Handle{ClusterID: parts[0], Namespace: parts[1], Claim: parts[2]}, nil
}

// HandleOf returns the handle of a PersistentVolume, and reports whether a provider stores its data. It fails if the
// volume has the CSI driver v1alpha1.StorageProvisioner and a malformed handle.
func HandleOf(volume *corev1.PersistentVolume) (Handle, bool, error) {
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != v1alpha1.StorageProvisioner {
		return Handle{}, false, nil
	}
	handle, err := ParseHandle(volume.Spec.CSI.VolumeHandle)
	return handle, err == nil, err
}

// RemoteSource returns the volume source of the local PersistentVolume whose data is stored by the claim with this
// handle on a provider. No node runs the CSI driver of this source, so no local kubelet can mount the volume.
func RemoteSource(handle Handle) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.StorageProvisioner, VolumeHandle: handle.String(),
	}}
}

// RemoteAffinity returns the node affinity of a PersistentVolume whose data a provider stores. It
// selects the virtual nodes of the provider that have all labels in topology. Nil selects all virtual
// nodes of the provider.
func RemoteAffinity(clusterID string, topology map[string]string) *corev1.VolumeNodeAffinity {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	requirements := []corev1.NodeSelectorRequirement{
		in(v1alpha1.LabelType, v1alpha1.TypeVirtualNode),
		in(v1alpha1.LabelRemoteClusterID, clusterID),
	}
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		requirements = append(requirements, in(key, topology[key]))
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}},
	}}
}

// RemoteClass returns the StorageClass for the volume of a claim on a provider. offered are the StorageClasses that the
// provider offers, the default first. It returns the class in the annotation liqo.io/remote-storage-class of the claim,
// otherwise the class whose name is the argument local, if that is offered, otherwise the default. It fails if the
// class in the annotation is not offered, or if offered is empty.
func RemoteClass(claim *corev1.PersistentVolumeClaim, local string, offered []string) (string, error) {
	if len(offered) == 0 {
		return "", fmt.Errorf("the provider offers no storage class")
	}
	if named := claim.Annotations[v1alpha1.AnnotationRemoteStorageClass]; named != "" {
		if !slices.Contains(offered, named) {
			return "", fmt.Errorf("the provider does not offer the storage class %q of annotation %s, but %s",
				named, v1alpha1.AnnotationRemoteStorageClass, strings.Join(offered, ", "))
		}
		return named, nil
	}
	if slices.Contains(offered, local) {
		return local, nil
	}
	return offered[0], nil
}
