// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// MaxExternalVolumes is the maximum number of volume types, and of CSI drivers, in an offer.
	MaxExternalVolumes = 32
	// maxDriverName is the maximum length of the name of a CSI driver in Kubernetes.
	maxDriverName = 63
)

// ExternalVolumeTypes are the volume types that a provider can offer, by their names in a pod:
// storage systems that a kubelet mounts over the network. Types with data on the node, for example
// hostPath, and types that Kubernetes removed are not included.
var ExternalVolumeTypes = []string{"fc", "iscsi", "nfs"}

// maxVolumeSize is the maximum size of a volume.
var maxVolumeSize = resource.MustParse("1Ei")

// volumeSize validates that the size of a volume is above 0 and at most maxVolumeSize.
func volumeSize(size resource.Quantity, path *field.Path) field.ErrorList {
	switch {
	case size.Sign() <= 0:
		return field.ErrorList{field.Invalid(path, size.String(), "must be greater than 0")}
	case size.Cmp(maxVolumeSize) > 0:
		return field.ErrorList{field.Invalid(path, size.String(), "must be at most "+maxVolumeSize.String())}
	}
	return nil
}

// storageQuota validates a list of limits for claims. It may contain requests.storage,
// persistentvolumeclaims, and requests.storage of single StorageClasses.
func storageQuota(list corev1.ResourceList, path *field.Path) field.ErrorList {
	errs := resources(list, path)
	if len(list) > maxResources {
		return errs
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(truncate(string(name)))
		if !v1alpha1.IsStorage(name) {
			errs = append(errs, field.NotSupported(at, truncate(string(name)), []string{
				string(corev1.ResourceRequestsStorage), string(corev1.ResourcePersistentVolumeClaims),
				string(v1alpha1.ClassStorage("<class>")),
			}))
			continue
		}
		if class, ofClass := v1alpha1.ClassOfStorage(name); ofClass {
			errs = append(errs, subdomain(class, at)...)
		}
	}
	return errs
}

// notStorage validates that spec.resources of an offer contains no limit for claims, which belongs
// in spec.storage: resources in spec.resources become the capacity of a Node.
func notStorage(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if v1alpha1.IsStorage(name) {
			errs = append(errs, field.Forbidden(path.Key(truncate(string(name))), "must be in spec.storage instead"))
		}
	}
	return errs
}

// externalVolumes validates the volume types and CSI drivers that pods may use without a claim.
func externalVolumes(volumes *federation.ExternalVolumes, path *field.Path) field.ErrorList {
	errs := uniqueNames(volumes.Types, MaxExternalVolumes, path.Child("types"), ExternalVolumeType)
	return append(errs, uniqueNames(volumes.CSIDrivers, MaxExternalVolumes, path.Child("csiDrivers"), CSIDriver)...)
}

// ExternalVolumeType validates that a volume type is one of ExternalVolumeTypes.
func ExternalVolumeType(name string, path *field.Path) field.ErrorList {
	return oneOf(name, path, ExternalVolumeTypes...)
}

// CSIDriver validates the name of a CSI driver for inline volumes. v1alpha1.StorageProvisioner, the
// CSI driver of the federation, is refused.
func CSIDriver(name string, path *field.Path) field.ErrorList {
	if len(name) > maxDriverName {
		return field.ErrorList{field.TooLong(path, "", maxDriverName)}
	}
	if name == v1alpha1.StorageProvisioner {
		return field.ErrorList{field.Forbidden(path,
			"must not be the CSI driver of the federation, which has no inline volumes")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}
