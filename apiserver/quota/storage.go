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

// StorageOf returns the resources of a list that bound claims. It returns nil if requests.storage
// is missing or 0: then no storage is offered.
func StorageOf(list corev1.ResourceList) corev1.ResourceList {
	if offered := list[corev1.ResourceRequestsStorage]; offered.Sign() <= 0 {
		return nil
	}
	storage := maps.Clone(list)
	maps.DeleteFunc(storage, func(name corev1.ResourceName, _ resource.Quantity) bool { return !v1alpha1.IsStorage(name) })
	return storage
}

// StorageGranted returns the sum of the storage quotas that a consumer has accepted and
// that were not withdrawn, and the storage classes of these offers. An offer without
// requests.storage offers no storage.
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

// StorageShort returns the resources of which a storage quota has no room for what is
// requested in addition to what is used, by name. requests.storage has to be granted, and
// every other resource is limited only where the quota names it.
func StorageShort(granted, used, requested corev1.ResourceList) []Shortage {
	bounded := maps.Clone(requested)
	maps.DeleteFunc(bounded, func(name corev1.ResourceName, _ resource.Quantity) bool { return !bounds(granted, name) })
	return Short(granted, used, bounded)
}

// StorageExceeded returns the resources of which more storage is used than a quota grants,
// by name, as StorageShort bounds them.
func StorageExceeded(granted, used corev1.ResourceList) []Shortage {
	bounded := maps.Clone(used)
	maps.DeleteFunc(bounded, func(name corev1.ResourceName, _ resource.Quantity) bool { return !bounds(granted, name) })
	return Exceeded(granted, bounded)
}

// bounds reports whether a storage quota limits a resource: requests.storage has to be
// granted, and every other one is limited only where the quota names it.
func bounds(granted corev1.ResourceList, name corev1.ResourceName) bool {
	_, named := granted[name]
	return named || name == corev1.ResourceRequestsStorage
}

// StorageUsed returns the usage of the storage quota of a consumer by its ShadowVolumeClaims.
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

// ClaimStorage returns the storage quota usage of a claim of a storage class: one claim, and the
// largest of its sizes, which may be nil.
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
