// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// driver is the name of the provisioner of the classes that are not virtual.
const driver = "local.example.com"

var (
	claims  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	pods1   = corev1.SchemeGroupVersion.WithResource("pods")
	classes = storagev1.SchemeGroupVersion.WithResource("storageclasses")
)

// controlPlane performs the parts of Kubernetes that concern the claims of a cluster: its volume
// controllers, a provisioner of its real classes, and a scheduler that selects nodes for claims.
type controlPlane struct {
	store *store
	// prefers has the names of nodes. The scheduler selects the first one that exists.
	prefers []string
	// provisioned and deleted are the numbers of volumes that the provisioner has created and
	// deleted.
	provisioned, deleted int
}

// run acts on every change of the store until the context ends.
func (k *controlPlane) run(ctx context.Context) {
	s := k.store
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.news.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil {
		for k.act() {
			continue
		}
		for seen := s.version; seen == s.version && ctx.Err() == nil; {
			s.news.Wait()
		}
	}
}

// of returns copies of all objects of the resource that in names, in all namespaces.
func of[T object](s *store, in key) []T {
	var all []T
	for _, k := range s.keys(func(k key) bool { return k.resource == in.resource }) {
		all = append(all, s.objects[k].DeepCopyObject().(T))
	}
	return all
}

func keyOf(resource key, o object) key {
	resource.namespace, resource.name = o.GetNamespace(), o.GetName()
	return resource
}

// save writes an object and its status. It always returns true, so that act can return its result.
func (k *controlPlane) save(resource key, o object) bool {
	at := keyOf(resource, o)
	status := o.DeepCopyObject().(object)
	written, err := k.store.update(at, status, "status")
	if err != nil {
		panic(err)
	}
	o.SetResourceVersion(written.GetResourceVersion())
	if _, err := k.store.update(at, o, ""); err != nil {
		panic(err)
	}
	return true
}

// act performs one pending action of the control plane, and reports whether there was one.
func (k *controlPlane) act() bool {
	claimKind, volumeKind := key{resource: claims}, key{resource: volumes}
	all := of[*corev1.PersistentVolume](k.store, volumeKind)
	for _, claim := range of[*corev1.PersistentVolumeClaim](k.store, claimKind) {
		if k.actOnClaim(claim, all) {
			return true
		}
	}
	for _, pv := range all {
		if k.actOnVolume(pv) {
			return true
		}
	}
	return false
}

func (k *controlPlane) actOnClaim(claim *corev1.PersistentVolumeClaim, all []*corev1.PersistentVolume) bool {
	kind := key{resource: claims}
	index := slices.IndexFunc(all, func(pv *corev1.PersistentVolume) bool {
		return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
	})
	class := k.classOf(claim)
	switch {
	case claim.DeletionTimestamp != nil:
		if k.mounted(claim) {
			return false
		}
		claim.Finalizers = nil
		return k.save(kind, claim)
	case claim.Status.Phase == "":
		claim.Status.Phase = corev1.ClaimPending
		return k.save(kind, claim)
	case claim.Status.Phase == corev1.ClaimPending && index >= 0:
		claim.Spec.VolumeName, claim.Status.Phase = all[index].Name, corev1.ClaimBound
		claim.Status.Capacity = all[index].Spec.Capacity
		return k.save(kind, claim)
	case claim.Status.Phase == corev1.ClaimBound && index < 0:
		claim.Status.Phase = corev1.ClaimLost
		return k.save(kind, claim)
	case class == nil, claim.Status.Phase == corev1.ClaimLost:
		return false
	case claim.Status.Phase == corev1.ClaimBound:
		return k.expand(claim, all[index])
	case class.Provisioner != driver:
		return k.selectNode(claim)
	}
	first := ptr.Deref(class.VolumeBindingMode,
		storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
	if first && claim.Annotations[volume.AnnotationSelectedNode] == "" && !k.mounted(claim) {
		return false
	}
	return k.provision(claim, class)
}

func (k *controlPlane) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	found, err := k.store.get(key{resource: classes, name: ptr.Deref(claim.Spec.StorageClassName, "")})
	if err != nil {
		return nil
	}
	return found.(*storagev1.StorageClass)
}

// mounted reports whether a pod mounts a claim.
func (k *controlPlane) mounted(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(of[*corev1.Pod](k.store, key{resource: pods1}), func(pod *corev1.Pod) bool {
		return pod.Namespace == claim.Namespace && slices.Contains(kit.ClaimsOf(pod), claim.Name)
	})
}

// selectNode performs the scheduler's part for a claim of the virtual class: it annotates the claim
// with a node. It reports whether it changed the claim.
func (k *controlPlane) selectNode(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Annotations[volume.AnnotationSelectedNode] != "" {
		return false
	}
	for _, node := range k.prefers {
		if _, ok := k.store.objects[key{resource: nodes, name: node}]; ok {
			claim.Annotations = map[string]string{volume.AnnotationSelectedNode: node}
			return k.save(key{resource: claims}, claim)
		}
	}
	return false
}

func (k *controlPlane) provision(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	k.provisioned++
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		StorageClassName: class.Name, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
			Name: claim.Name, UID: claim.UID},
	}}
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
	if _, err := k.store.create(key{resource: volumes, name: "local-" + string(claim.UID)}, pv); err != nil {
		panic(err)
	}
	return true
}

// expand expands a volume to the requested size of its claim. It reports whether it changed an
// object.
func (k *controlPlane) expand(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case pv.Spec.CSI != nil || requested.Cmp(claim.Status.Capacity[corev1.ResourceStorage]) <= 0:
		return false
	case requested.Cmp(*pv.Spec.Capacity.Storage()) > 0:
		pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested}
		return k.save(key{resource: volumes}, pv)
	}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested}
	return k.save(key{resource: claims}, claim)
}

func (k *controlPlane) actOnVolume(pv *corev1.PersistentVolume) bool {
	kind, phase := key{resource: volumes}, corev1.VolumeReleased
	claim, ok := k.store.objects[key{claims, pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name}]
	if ok && claim.GetUID() == pv.Spec.ClaimRef.UID {
		phase = corev1.VolumeBound
	}
	switch {
	case pv.Status.Phase != phase:
		pv.Status.Phase = phase
		return k.save(kind, pv)
	case phase == corev1.VolumeReleased && pv.Spec.CSI == nil && pv.DeletionTimestamp == nil &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		k.deleted++
		if err := k.store.delete(keyOf(kind, pv), nil); err != nil {
			panic(err)
		}
		return true
	}
	return false
}

// admitClaim performs the admission of a new claim. kube-apiserver sets a finalizer on a
// PersistentVolumeClaim, and the federation API server sets one on a ShadowVolumeClaim, which
// counts towards the quota from then on.
func admitClaim(_ key, changed object) {
	if changed.GetResourceVersion() != "" {
		return
	}
	switch o := changed.(type) {
	case *corev1.PersistentVolumeClaim:
		o.Finalizers = []string{"kubernetes.io/pvc-protection"}
	case *v1alpha1.ShadowVolumeClaim:
		o.Finalizers = []string{v1alpha1.Finalizer}
		o.Status = v1alpha1.ShadowVolumeClaimStatus{ForeignCluster: "rome"}
	}
}
