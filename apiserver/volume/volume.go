// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume has the rules for claims of the virtual storage class that plans, admission,
// controllers and virtual kubelets share: the names of claims on providers, their PersistentVolumes,
// and their storage classes. Functions are pure.
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

// Annotations of PersistentVolumes that the controllers bind to claims of the virtual
// storage class.
const (
	// AnnotationStorageClass is the real StorageClass of a volume in this cluster, which
	// is restored before the volume is released.
	AnnotationStorageClass = "storage.liqo.io/storage-class"
	// AnnotationReclaimPolicy is the reclaim policy that the user's class or an
	// administrator chose for a volume which is kept while it is in use.
	AnnotationReclaimPolicy = "storage.liqo.io/reclaim-policy"
	// AnnotationProvisionedBy is set on every PersistentVolume by its provisioner; the
	// key belongs to Kubernetes.
	AnnotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// AnnotationSelectedNode is the node that the scheduler chose for the first pod of
	// a claim; the key belongs to Kubernetes.
	AnnotationSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnotationStorageProvisioner names the provisioner that a claim waits for; the
	// key belongs to Kubernetes.
	AnnotationStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
)

// MoverRequests returns the CPU and memory that each pod of a move requests.
func MoverRequests() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
}

// Marks on claims, pods and Services that a move creates or holds.
const (
	// LabelMove is the id of the move that created a claim, a pod or a Service. Such a
	// claim has no VirtualVolume, and such a pod is not held back by its move.
	LabelMove = "storage.liqo.io/move"
	// AnnotationMoving is, on the user's claim, the id of the move that holds new pods
	// back which mount it.
	AnnotationMoving = "storage.liqo.io/moving"
	// AnnotationLocalStorageClass, on a claim, is the real StorageClass in this cluster
	// in place of the one that the virtual class names.
	AnnotationLocalStorageClass = "storage.liqo.io/local-storage-class"
	// AnnotationOriginClaim is, on a ShadowVolumeClaim and its claim, the name of the
	// consumer's claim.
	AnnotationOriginClaim = "storage.liqo.io/origin-claim"
)

// Finalizer holds a PersistentVolume until its data on the provider is released, or its real class
// and reclaim policy in this cluster are restored.
const Finalizer = "storage.liqo.io/volume"

const (
	volumePrefix = "pvc-"
	// hashLength is the number of hexadecimal digits of the hash in names of claims on a
	// provider.
	hashLength = 8
	// maxName is the longest name of a claim, a DNS subdomain.
	maxName = validation.DNS1123SubdomainMaxLength
)

// VolumeName returns the name of the PersistentVolume that is provisioned for a claim,
// in the form that provisioners of Kubernetes use.
func VolumeName(claim types.UID) string { return volumePrefix + string(claim) }

// RemoteClaimName returns the name of the claim on a provider for a claim and its
// PersistentVolume in this cluster: the name of the claim, truncated if it is too long, with a hash of
// the volume's name, so that another claim of the same name never gets a retained volume.
func RemoteClaimName(claim, volume string) string {
	sum := sha256.Sum256([]byte(volume))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashLength]
	if len(claim) > maxName-len(suffix) {
		claim = strings.TrimRight(claim[:maxName-len(suffix)], "-.")
	}
	return claim + suffix
}

// Handle identifies the claim on a provider of a PersistentVolume in this cluster.
type Handle struct {
	// ClusterID is the provider's cluster id.
	ClusterID string
	// Namespace is the remote namespace on the provider.
	Namespace string
	// Claim is the name of the claim and of its ShadowVolumeClaim on the provider.
	Claim string
}

// String returns the volume handle of the PersistentVolume: cluster/namespace/claim.
func (h Handle) String() string { return h.ClusterID + "/" + h.Namespace + "/" + h.Claim }

// ParseHandle returns the handle that a volume handle encodes. An error names the
// malformed part.
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

// HandleOf returns the handle of a PersistentVolume whose data a provider stores, and
// reports whether it is one. An error means that the volume has the driver of the
// federation and a malformed handle.
func HandleOf(volume *corev1.PersistentVolume) (Handle, bool, error) {
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != v1alpha1.StorageProvisioner {
		return Handle{}, false, nil
	}
	handle, err := ParseHandle(volume.Spec.CSI.VolumeHandle)
	return handle, err == nil, err
}

// RemoteSource returns the source of the PersistentVolume for a claim on a provider.
// Its driver runs on no node, so that no kubelet of this cluster can mount it.
func RemoteSource(handle Handle) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.StorageProvisioner, VolumeHandle: handle.String(),
	}}
}

// RemoteAffinity returns the affinity of a PersistentVolume whose data a provider
// stores: virtual nodes of that provider, and of these the ones with the labels of
// topology, which may be nil.
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

// RemoteClass returns the storage class of a claim on a provider that offers the classes offered, the
// default first: the class in its annotation liqo.io/remote-storage-class, otherwise the one with the
// name local, if it is offered, otherwise the default. It fails if the class of the annotation, or any
// class, is not offered.
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
