// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// classStorageSuffix follows the name of a storage class in the resource that bounds
// its claims, as in a ResourceQuota of Kubernetes.
const classStorageSuffix = ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)

// ClassStorage returns the resource that bounds the storage of the claims of one
// storage class, in bytes.
func ClassStorage(class string) corev1.ResourceName {
	return corev1.ResourceName(class + classStorageSuffix)
}

// ClassOfStorage returns the storage class whose claims a resource bounds, and reports
// whether it bounds those of one class.
func ClassOfStorage(name corev1.ResourceName) (class string, ok bool) {
	return strings.CutSuffix(string(name), classStorageSuffix)
}

// IsStorage reports whether a resource is part of a storage quota: requests.storage,
// persistentvolumeclaims, or the storage of one class.
func IsStorage(name corev1.ResourceName) bool {
	_, ofClass := ClassOfStorage(name)
	return ofClass || name == corev1.ResourceRequestsStorage || name == corev1.ResourcePersistentVolumeClaims
}
