// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// classStorageSuffix is the suffix of the resource name that limits the storage of one
// StorageClass, the same as in a ResourceQuota.
const classStorageSuffix = ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)

// ClassStorage returns the name of the resource that limits, in bytes, the storage of the claims of
// a StorageClass.
func ClassStorage(class string) corev1.ResourceName {
	return corev1.ResourceName(class + classStorageSuffix)
}

// ClassOfStorage returns the name of the StorageClass whose storage a resource limits; ok is false
// if the resource does not limit the storage of one StorageClass.
func ClassOfStorage(name corev1.ResourceName) (class string, ok bool) {
	return strings.CutSuffix(string(name), classStorageSuffix)
}

// IsStorage reports whether a resource belongs to a storage quota: requests.storage,
// persistentvolumeclaims, or the storage of one StorageClass.
func IsStorage(name corev1.ResourceName) bool {
	_, ofClass := ClassOfStorage(name)
	return ofClass || name == corev1.ResourceRequestsStorage || name == corev1.ResourcePersistentVolumeClaims
}
