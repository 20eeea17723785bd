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

// StorageOf returns the resources of a list that bound claims, or nil where it has no
// requests.storage, or 0 of it: then no storage is offered.
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
		if !stands(offer) || storage == nil {
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
// requested in addition to what is used, by name. requests.storage has to be granted;
// every other resource is bounded only where the quota names it.
func StorageShort(granted, used, requested corev1.ResourceList) []Shortage {
	bounded := maps.Clone(requested)
	maps.DeleteFunc(bounded, func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, named := granted[name]
		return !named && name != corev1.ResourceRequestsStorage
	})
	return Short(granted, used, bounded)
}

// ClaimStorage returns what a claim of a storage class takes of a storage quota: one
// claim, and the largest of its sizes, which may be nil.
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
