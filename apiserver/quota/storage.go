// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// StorageOf returns the part of a list that limits claims, as defined by v1alpha1.IsStorage. It returns
// nil if requests.storage is missing or 0, which means that no storage is offered.
func StorageOf(list corev1.ResourceList) corev1.ResourceList {
	if offered := list[corev1.ResourceRequestsStorage]; offered.Sign() <= 0 {
		return nil
	}
	storage := maps.Clone(list)
	maps.DeleteFunc(storage, func(name corev1.ResourceName, _ resource.Quantity) bool { return !v1alpha1.IsStorage(name) })
	return storage
}

// StorageGranted returns the storage quota of a consumer, which is the sum of spec.storage of its valid
// offers as defined by Granted, and the StorageClasses of these offers. It ignores offers without
// requests.storage.
func StorageGranted(offers []*v1alpha1.ResourceOffer) (granted corev1.ResourceList, classes []string) {
	granted = corev1.ResourceList{}
	for _, offer := range offers {
		storage := StorageOf(offer.Spec.Storage)
		if !valid(offer) || storage == nil {
			continue
		}
		Add(granted, storage)
		for _, class := range offer.Spec.StorageClasses {
			if !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
	}
	return granted, classes
}

// StorageShort returns the resources whose available storage quota is smaller than the requested
// amount, sorted by name. A storage quota without requests.storage permits no storage; any other
// resource that it does not contain is not limited.
func StorageShort(granted, used, requested corev1.ResourceList) []Shortage {
	bounded := maps.Clone(requested)
	maps.DeleteFunc(bounded, func(name corev1.ResourceName, _ resource.Quantity) bool { return !bounds(granted, name) })
	return Short(granted, used, bounded)
}

// StorageExceeded returns the resources whose usage exceeds the storage quota, sorted by name.
// Resources are limited as in StorageShort.
func StorageExceeded(granted, used corev1.ResourceList) []Shortage {
	bounded := maps.Clone(used)
	maps.DeleteFunc(bounded, func(name corev1.ResourceName, _ resource.Quantity) bool { return !bounds(granted, name) })
	return Exceeded(granted, bounded)
}

// bounds reports whether a storage quota limits a resource. It always limits requests.storage, and
// other resources only if it contains them.
func bounds(granted corev1.ResourceList, name corev1.ResourceName) bool {
	_, named := granted[name]
	return named || name == corev1.ResourceRequestsStorage
}

// StorageUsed returns the storage quota usage of all ShadowVolumeClaims of the consumer with this
// ForeignCluster.
func StorageUsed(claims []*v1alpha1.ShadowVolumeClaim, foreignCluster string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, claim := range claims {
		if claim.Status.ForeignCluster == foreignCluster {
			Add(used, ClaimStorage(claim.Spec.StorageClassName, &claim.Spec.Storage, claim.Status.Capacity,
				claim.Status.Allocated))
		}
	}
	return used
}

// RetainedStorage returns the storage quota usage of the PersistentVolumes that a provider retains for a
// consumer.
func RetainedStorage(volumes []corev1.PersistentVolume) corev1.ResourceList {
	used := corev1.ResourceList{}
	for i := range volumes {
		Add(used, ClaimStorage(volumes[i].Spec.StorageClassName, volumes[i].Spec.Capacity.Storage()))
	}
	return used
}

// ClaimStorage returns the storage quota usage of one claim with a StorageClass: 1 of
// persistentvolumeclaims, and the largest of sizes. Nil sizes are ignored.
func ClaimStorage(class string, sizes ...*resource.Quantity) corev1.ResourceList {
	largest := resource.Quantity{Format: resource.BinarySI}
	for _, size := range sizes {
		if size != nil && size.Cmp(largest) > 0 {
			largest = size.DeepCopy()
		}
	}
	return corev1.ResourceList{
		corev1.ResourcePersistentVolumeClaims: *resource.NewQuantity(1, resource.DecimalSI),
		corev1.ResourceRequestsStorage:        largest,
		v1alpha1.ClassStorage(class):          largest.DeepCopy(),
	}
}
