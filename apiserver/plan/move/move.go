// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move validates requests to the verb move against the state of the cluster, and computes the
// plan of a move. Its functions are pure: Request contains all facts.
package move

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

var (
	namePath      = field.NewPath("metadata", "name")
	namespacePath = field.NewPath("metadata", "namespace")
	strategyPath  = field.NewPath("spec", "strategy")
	targetPath    = field.NewPath("spec", "target")
)

// Request is a request to move the data of a claim, together with the state of the cluster that the
// result depends on.
type Request struct {
	// Spec is the requested move.
	Spec v1alpha1.MoveSpec
	// Volume is the VirtualVolume of the claim. It is never nil.
	Volume *v1alpha1.VirtualVolume
	// Claim is the claim with the name of the VirtualVolume, and PersistentVolume the volume in its
	// spec.volumeName. Each is nil if it does not exist.
	Claim            *corev1.PersistentVolumeClaim
	PersistentVolume *corev1.PersistentVolume
	// Classes are all StorageClasses of the local cluster.
	Classes []*storagev1.StorageClass
	// Pods are the unfinished pods of the namespace. Budgets, Quotas and Policies are its
	// PodDisruptionBudgets, ResourceQuotas and NetworkPolicies.
	Pods     []*corev1.Pod
	Budgets  []*policyv1.PodDisruptionBudget
	Quotas   []*corev1.ResourceQuota
	Policies []*networkingv1.NetworkPolicy
	// Offloading is the NamespaceOffloading of the namespace, or nil if it does not exist.
	Offloading *v1alpha1.NamespaceOffloading
	// Providers are all ForeignClusters, each with its virtual nodes.
	Providers []placement.Provider
	// Nodes are all Nodes of the local cluster, including virtual nodes.
	Nodes []*corev1.Node
	// Stored is the usage of a provider's storage by the virtual volumes that it stores, by the name of its
	// ForeignCluster: persistentvolumeclaims, requests.storage, and the storage of each StorageClass.
	Stored map[string]corev1.ResourceList
}

// end is the source or the target of a move.
type end struct {
	// provider is the provider at this end. Nil means the local cluster.
	provider *placement.Provider
	// class is the StorageClass of the volume. It is empty for a source volume that does not record its class.
	class string
	// nodes are the Nodes on which the volume can be used. For a provider they are its virtual nodes.
	nodes []*corev1.Node
}

func (e end) name() string {
	if e.provider == nil {
		return ""
	}
	return e.provider.Cluster.Name
}

func (e end) location() v1alpha1.VolumeLocation {
	at := v1alpha1.VolumeLocation{StorageClassName: e.class}
	if e.provider != nil {
		at.ClusterName, at.ClusterID = e.provider.Cluster.Name, e.provider.Cluster.Spec.ClusterID
	}
	return at
}

// Plan returns the plan of the move, or the errors that prevent the move. Each error ends with the
// remedy.
func (r Request) Plan() (*v1alpha1.MovePlan, field.ErrorList) {
	if errs := r.claim(); len(errs) > 0 {
		return nil, errs
	}
	source, errs := r.source()
	if len(errs) > 0 {
		return nil, errs
	}
	target, errs := r.target(source)
	if len(errs) == 0 {
		errs = r.samePlace(source, target)
	}
	errs = append(errs, r.quotas()...)
	if len(errs) > 0 {
		return nil, errs
	}
	errs = append(errs, r.networking(source, target)...)
	errs = append(errs, r.placement(target)...)
	errs = append(errs, r.attributes(source, target)...)
	errs = append(errs, r.room(target)...)
	errs = append(errs, r.mountedBy(target)...)
	if len(errs) > 0 {
		return nil, errs
	}
	return r.plan(source, target), nil
}

// size returns the size of the target volume: the largest of the requested size and the
// capacities of the claim and its volume.
func (r Request) size() resource.Quantity {
	size := r.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, other := range []resource.Quantity{
		r.Claim.Status.Capacity[corev1.ResourceStorage], r.PersistentVolume.Spec.Capacity[corev1.ResourceStorage],
	} {
		if other.Cmp(size) > 0 {
			size = other
		}
	}
	return size
}

// source returns the current location of the data. It fails if the volume is malformed, or if the
// cluster that stores the data is not a peer.
func (r Request) source() (end, field.ErrorList) {
	handle, remote, err := volume.HandleOf(r.PersistentVolume)
	if err != nil {
		return end{}, r.refuse("its PersistentVolume %s is malformed: %v", r.PersistentVolume.Name, err)
	}
	source := end{class: r.PersistentVolume.Annotations[volume.AnnotationStorageClass]}
	if at := r.Volume.Status.Location; source.class == "" && at != nil {
		source.class = at.StorageClassName
	}
	if !remote {
		return source, nil
	}
	for i := range r.Providers {
		if r.Providers[i].Cluster.Spec.ClusterID == handle.ClusterID {
			source.provider = &r.Providers[i]
			return source, nil
		}
	}
	return end{}, r.refuse("cluster %s stores its data, and no ForeignCluster has this cluster ID; peer with it again",
		handle.ClusterID)
}

// samePlace returns an error if the data is already at the requested target.
func (r Request) samePlace(source, target end) field.ErrorList {
	requested := r.Spec.Target
	if source.name() != target.name() || requested.StorageClassName != "" && requested.StorageClassName != source.class {
		return nil
	}
	if requested.NodeName != "" && len(target.nodes) > 0 && !reaches(r.PersistentVolume, target.nodes[0]) {
		return nil
	}
	where := "this cluster"
	if source.provider != nil {
		where = "cluster " + source.name()
	}
	return field.ErrorList{field.Invalid(r.targetPath(), r.targetValue(),
		"the data is already stored in "+where+"; request another cluster, node or storage class")}
}

// refuse returns an error for the field metadata.name, with a reason that prevents a move of the claim.
func (r Request) refuse(format string, args ...any) field.ErrorList {
	return field.ErrorList{invalid(namePath, r.Volume.Name, format, args...)}
}

// targetPath returns the path of the field in spec.target that selects the target cluster.
func (r Request) targetPath() *field.Path {
	switch {
	case r.Spec.Target.Local:
		return targetPath.Child("local")
	case r.Spec.Target.ClusterName != "":
		return targetPath.Child("clusterName")
	}
	return targetPath
}

// targetValue returns the value that spec.target selects the target with, for error messages.
func (r Request) targetValue() any {
	if r.Spec.Target.Local {
		return true
	}
	return cmp.Or(r.Spec.Target.ClusterName, r.Spec.Target.NodeName, r.Spec.Target.StorageClassName)
}
