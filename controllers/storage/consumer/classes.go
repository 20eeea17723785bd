// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

const (
	annotationDefaultClass     = "storageclass.kubernetes.io/is-default-class"
	annotationBetaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
	noProvisioner              = "kubernetes.io/no-provisioner"
)

// refusal is an error that retries do not resolve: the reason why a claim is not provisioned, as a sentence for the
// owner of the claim.
type refusal struct{ message string }

// Error implements error.
func (r *refusal) Error() string { return r.message }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// unsupported returns a refusal for the first field of a claim that virtual StorageClasses do not support, or nil.
func unsupported(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	switch {
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return refuse("spec.volumeMode %s is not supported by StorageClass %s: use Filesystem, or another StorageClass.",
			*claim.Spec.VolumeMode, class.Name)
	case claim.Spec.DataSource != nil:
		return refuse("spec.dataSource is not supported by StorageClass %s: use another StorageClass.", class.Name)
	case claim.Spec.DataSourceRef != nil:
		return refuse("spec.dataSourceRef is not supported by StorageClass %s: use another StorageClass.", class.Name)
	case claim.Spec.Selector != nil:
		return refuse("spec.selector is not supported by StorageClass %s: use another StorageClass.", class.Name)
	case ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) !=
		storagev1.VolumeBindingWaitForFirstConsumer:
		return refuse("StorageClass %s has volumeBindingMode Immediate: create it with WaitForFirstConsumer.", class.Name)
	}
	return nil
}

// localClass returns the StorageClass by which a claim is provisioned on local nodes: the one in the claim's
// annotation, otherwise in the virtual class's parameter, otherwise the cluster's default class. It fails with a
// refusal if that class does not exist or cannot be used.
func localClass(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, all []storagev1.StorageClass,
) (*storagev1.StorageClass, error) {
	wanted := cmp.Or(claim.Annotations[volume.AnnotationLocalStorageClass],
		class.Parameters[v1alpha1.ParameterLocalStorageClass])
	if wanted == "" {
		found := defaultClass(all)
		if found == nil {
			return nil, refuse("This cluster has no default StorageClass other than virtual ones: mark one as the default, "+
				"or set parameter %s of StorageClass %s.", v1alpha1.ParameterLocalStorageClass, class.Name)
		}
		return found, usable(found)
	}
	index := slices.IndexFunc(all, func(class storagev1.StorageClass) bool { return class.Name == wanted })
	if index < 0 {
		where := fmt.Sprintf("parameter %s of StorageClass %s", v1alpha1.ParameterLocalStorageClass, class.Name)
		if claim.Annotations[volume.AnnotationLocalStorageClass] != "" {
			where = "annotation " + volume.AnnotationLocalStorageClass + " of the claim"
		}
		return nil, refuse("StorageClass %s does not exist in this cluster: create it, or name another one in %s.",
			wanted, where)
	}
	return &all[index], usable(&all[index])
}

// defaultClass returns the newest default class that is not virtual, or nil. Kubernetes too uses the newest of several.
func defaultClass(all []storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for i := range all {
		class := &all[i]
		if isVirtual(class) ||
			class.Annotations[annotationDefaultClass] != "true" && class.Annotations[annotationBetaDefaultClass] != "true" {
			continue
		}
		if found == nil || newer(class, found) {
			found = class
		}
	}
	return found
}

func newer(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// usable returns a refusal for a StorageClass that is virtual or has no provisioner, or whose volumes cannot be bound
// to another claim than the one that they were provisioned for, because the class derives the name of a Secret from the
// claim. It returns nil for other classes.
func usable(class *storagev1.StorageClass) error {
	switch {
	case isVirtual(class):
		return refuse("StorageClass %s is virtual itself: name a StorageClass with the driver of a storage system.",
			class.Name)
	case class.Provisioner == noProvisioner:
		return refuse("StorageClass %s has provisioner %s: name a StorageClass that provisions volumes.",
			class.Name, noProvisioner)
	}
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		if strings.Contains(key, "secret") && strings.Contains(class.Parameters[key], "${pvc.") {
			return refuse("Parameter %s of StorageClass %s derives the name of a Secret from the claim (${pvc.…}): "+
				"name a StorageClass whose parameters do not.", key, class.Name)
		}
	}
	return nil
}

// reclaimPolicy returns the reclaim policy of a StorageClass; the default is Delete.
func reclaimPolicy(class *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	return ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
}

// wantedPolicy returns the reclaim policy that applies when a volume is released: the one in its annotation, otherwise
// the one in its spec.
func wantedPolicy(pv *corev1.PersistentVolume) corev1.PersistentVolumeReclaimPolicy {
	switch policy := corev1.PersistentVolumeReclaimPolicy(pv.Annotations[volume.AnnotationReclaimPolicy]); policy {
	case corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain:
		return policy
	}
	return pv.Spec.PersistentVolumeReclaimPolicy
}
