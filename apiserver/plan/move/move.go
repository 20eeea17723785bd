// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move decides whether the data of a claim can be moved as requested, and plans the
// move. It reads nothing: every fact is in the request.
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

// Request is a request to move the data of a claim, with the facts that the decision depends
// on.
type Request struct {
	// Spec is the requested move.
	Spec v1alpha1.MoveSpec
	// Volume is the VirtualVolume of the claim. It is never nil.
	Volume *v1alpha1.VirtualVolume
	// Claim has the name of the VirtualVolume, and is bound to PersistentVolume; nil if they do
	// not exist.
	Claim            *corev1.PersistentVolumeClaim
	PersistentVolume *corev1.PersistentVolume
	// Classes are all storage classes of this cluster.
	Classes []*storagev1.StorageClass
	// Pods are the pods of the namespace that have not ended; Budgets, Quotas and Policies are
	// the objects of these kinds in the namespace.
	Pods     []*corev1.Pod
	Budgets  []*policyv1.PodDisruptionBudget
	Quotas   []*corev1.ResourceQuota
	Policies []*networkingv1.NetworkPolicy
	// Offloading is the NamespaceOffloading of the namespace; nil if there is none.
	Offloading *v1alpha1.NamespaceOffloading
	// Providers are all foreign clusters with their virtual nodes.
	Providers []placement.Provider
	// Nodes are all nodes of this cluster, virtual nodes among them.
	Nodes []*corev1.Node
	// Stored is the total capacity of the virtual volumes whose data a ForeignCluster stores, by
	// its name.
	Stored map[string]resource.Quantity
}

// end is one end of a move: a cluster with the storage class and the nodes of the volume.
type end struct {
	// provider is the foreign cluster; nil is this cluster.
	provider *placement.Provider
	// class is empty for a source that does not record it.
	class string
	// nodes are the nodes that may use the volume; of a provider, its virtual nodes.
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

// Plan returns the plan of the request, or every error that prevents it, each with the
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

// source returns the source of the move.
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

// samePlace refuses a target that already stores the data.
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

// refuse returns an error of the claim.
func (r Request) refuse(format string, args ...any) field.ErrorList {
	return field.ErrorList{invalid(namePath, r.Volume.Name, format, args...)}
}

// targetPath returns the field that selects the target cluster.
func (r Request) targetPath() *field.Path {
	switch {
	case r.Spec.Target.Local:
		return targetPath.Child("local")
	case r.Spec.Target.ClusterName != "":
		return targetPath.Child("clusterName")
	}
	return targetPath
}

// targetValue returns the value of the field that selects the target.
func (r Request) targetValue() any {
	if r.Spec.Target.Local {
		return true
	}
	return cmp.Or(r.Spec.Target.ClusterName, r.Spec.Target.NodeName, r.Spec.Target.StorageClassName)
}
