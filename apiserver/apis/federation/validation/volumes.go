// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names of volume types, as in spec.volumes of a pod.
const (
	volumeTypeCSI       = "csi"
	volumeTypeEphemeral = "ephemeral"
	volumeTypeHostPath  = "hostPath"
)

// podVolumeTypes are the volume types that every pod of a consumer may use: their data comes from
// an image or from objects in the namespace of the pod, or they are empty at first.
var podVolumeTypes = []string{
	"configMap", "downwardAPI", "emptyDir", "image", "persistentVolumeClaim", "projected", "secret",
}

// ExternalVolume returns the type of a volume that pods may use only if the provider offers it, for
// example nfs, and the CSI driver if the type is csi. It returns empty strings for all other
// volumes.
func ExternalVolume(volume *corev1.Volume) (volumeType, driver string) {
	for _, name := range volumeTypes(volume) {
		switch {
		case name == volumeTypeCSI:
			return name, volume.CSI.Driver
		case slices.Contains(ExternalVolumeTypes, name):
			return name, ""
		}
	}
	return "", ""
}

// volumeTypes returns the names of the types that are set in a volume. A valid volume has exactly
// one type.
func volumeTypes(volume *corev1.Volume) []string {
	var names []string
	sources := reflect.ValueOf(&volume.VolumeSource).Elem()
	for i := range sources.NumField() {
		if !sources.Field(i).IsNil() {
			name, _, _ := strings.Cut(sources.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// volumes validates the volumes of a new shadow pod. It does not verify that the provider offers
// external volumes; that is verified when the shadow pod is stored.
func volumes(list []corev1.Volume, path *field.Path) field.ErrorList {
	if len(list) > maxVolumes {
		return field.ErrorList{field.TooMany(path, len(list), maxVolumes)}
	}
	var errs field.ErrorList
	for i := range list {
		at, types := path.Index(i), volumeTypes(&list[i])
		if len(types) != 1 {
			errs = append(errs, field.Invalid(at, strings.Join(types, ", "), "must have exactly one type"))
			continue
		}
		errs = append(errs, volumeOfType(&list[i], types[0], at.Child(types[0]))...)
	}
	return errs
}

func volumeOfType(volume *corev1.Volume, name string, path *field.Path) field.ErrorList {
	switch {
	case volume.PersistentVolumeClaim != nil:
		// The pod may use any claim of the remote namespace.
		return subdomain(volume.PersistentVolumeClaim.ClaimName, path.Child("claimName"))
	case slices.Contains(podVolumeTypes, name), slices.Contains(ExternalVolumeTypes, name):
		return nil
	case name == volumeTypeHostPath:
		// podSecurity returns the error for it.
		return nil
	case name == volumeTypeCSI:
		return CSIDriver(volume.CSI.Driver, path.Child("driver"))
	case name == volumeTypeEphemeral:
		return field.ErrorList{field.Forbidden(path,
			"must be replaced by persistentVolumeClaim: the consumer creates the claim of an ephemeral volume")}
	}
	return field.ErrorList{field.Forbidden(path,
		"is never offered to other clusters: use a claim, or a type that the provider offers")}
}
