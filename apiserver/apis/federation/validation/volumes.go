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

// Names of volume types, as in a pod.
const (
	volumeTypeCSI       = "csi"
	volumeTypeEphemeral = "ephemeral"
	volumeTypeHostPath  = "hostPath"
)

// podVolumeTypes are the types that every pod of a consumer may mount: they contain objects of
// its namespace, or are empty.
var podVolumeTypes = []string{
	"configMap", "downwardAPI", "emptyDir", "image", "persistentVolumeClaim", "projected", "secret",
}

// ExternalVolume returns the type of a volume on a storage system of the provider, for example
// nfs, and the driver if the type is csi. The type is empty for other volumes.
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

// volumeTypes returns the types of a volume by their names in a pod. A valid volume has
// exactly one.
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

// volumes validates the volumes of a new shadow pod. Whether the provider offers an
// external volume is checked where the shadow pod is created.
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
		// A claim of the remote namespace, by any name.
		return subdomain(volume.PersistentVolumeClaim.ClaimName, path.Child("claimName"))
	case slices.Contains(podVolumeTypes, name), slices.Contains(ExternalVolumeTypes, name):
		return nil
	case name == volumeTypeHostPath:
		// Pod Security refuses it.
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
