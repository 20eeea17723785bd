// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/podspec"
)

func TestEveryFieldOfAPodHasAnAdmission(t *testing.T) {
	kind := reflect.TypeFor[corev1.PodSpec]()
	decided := map[string]podspec.Admission{}
	for _, field := range podspec.PodFields {
		decided[field.Name] = field.Admission
	}
	if len(decided) != kind.NumField() {
		t.Errorf("PodFields has %d fields, PodSpec has %d", len(decided), kind.NumField())
	}
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		admission, known := decided[name]
		if !known {
			t.Errorf("PodSpec has a field %s: add it to PodFields in apiserver/podspec", name)
			continue
		}
		pod := goodPod()
		if name != "AutomountServiceAccountToken" {
			set(reflect.ValueOf(&pod.Spec.Pod).Elem().Field(i))
		} else {
			pod.Spec.Pod.AutomountServiceAccountToken = ptr.To(true)
		}
		errs := ValidateShadowPod(pod)
		switch {
		case admission == podspec.Refused && len(errs) == 0:
			t.Errorf("%s can be set", name)
		case (admission == podspec.Accepted || admission == podspec.Overwritten) && len(errs) > 0:
			t.Errorf("%s cannot be set: %v", name, errs)
		}
	}
}

// TestEveryVolumeTypeIsAcceptedOrRefused validates shadow pods with one volume of each type that
// Kubernetes has. Validation accepts all external types; the creation of a shadow pod refuses the
// types that the provider does not offer.
func TestEveryVolumeTypeIsAcceptedOrRefused(t *testing.T) {
	const own, external, never = "own", "external", "never"
	decided := map[string]string{
		"ConfigMap": own, "Secret": own, "DownwardAPI": own, "Projected": own, "EmptyDir": own, "Image": own,
		"PersistentVolumeClaim": own,

		"CSI": external, "FC": external, "ISCSI": external, "NFS": external,

		"HostPath": never, "GitRepo": never, "FlexVolume": never, "Ephemeral": never, "CephFS": never, "RBD": never,
		"Glusterfs": never, "Flocker": never, "Quobyte": never, "PhotonPersistentDisk": never, "ScaleIO": never,
		"StorageOS": never, "AWSElasticBlockStore": never, "AzureDisk": never, "AzureFile": never, "Cinder": never,
		"GCEPersistentDisk": never, "PortworxVolume": never, "VsphereVolume": never,
	}
	sources := reflect.TypeFor[corev1.VolumeSource]()
	for i := range sources.NumField() {
		name := sources.Field(i).Name
		want, known := decided[name]
		if !known {
			t.Errorf("Kubernetes has volumes of type %s: decide whether a pod of a consumer may mount them", name)
			continue
		}
		delete(decided, name)
		pod := goodPod()
		pod.Spec.Pod.Volumes = []corev1.Volume{{Name: "data"}}
		source := reflect.ValueOf(&pod.Spec.Pod.Volumes[0].VolumeSource).Elem().Field(i)
		source.Set(reflect.New(source.Type().Elem()))
		if csi := pod.Spec.Pod.Volumes[0].CSI; csi != nil {
			csi.Driver = "nfs.csi.k8s.io"
		}
		if claim := pod.Spec.Pod.Volumes[0].PersistentVolumeClaim; claim != nil {
			claim.ClaimName = "data-db-0"
		}
		if errs := ValidateShadowPod(pod); (len(errs) == 0) != (want != never) {
			t.Errorf("a volume of type %s: %v", name, errs)
		}
		if kind, _ := ExternalVolume(&pod.Spec.Pod.Volumes[0]); (kind != "") != (want == external) {
			t.Errorf("a volume of type %s is external as %q", name, kind)
		}
	}
	for name := range decided {
		t.Errorf("Kubernetes has no volumes of type %s", name)
	}
}

func TestShadowPodNamesNoClaimOfAnotherNamespace(t *testing.T) {
	for name, refused := range map[string]bool{
		"data-db-0-0a1b2c3d": false, "data.db-0": false,
		"": true, "shop-turin/data": true, "../shop-turin/persistentvolumeclaims/data": true, "..": true, "data%2f": true, "Data": true,
		strings.Repeat("a", 254): true,
	} {
		pod := goodPod()
		pod.Spec.Pod.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
		errs := ValidateShadowPod(pod)
		if len(errs) > 0 != refused || refused && errs[0].Field != "spec.pod.volumes[0].persistentVolumeClaim.claimName" {
			t.Errorf("claim %q: %v", name, errs)
		}
	}
}

func TestVolumeHasExactlyOneType(t *testing.T) {
	for name, source := range map[string]corev1.VolumeSource{
		"none": {},
		"two":  {EmptyDir: &corev1.EmptyDirVolumeSource{}, NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/"}},
	} {
		pod := goodPod()
		volume(source)(&pod.Spec.Pod)
		if errs := ValidateShadowPod(pod); len(errs) != 1 || errs[0].Field != "spec.pod.volumes[1]" {
			t.Errorf("%s: got %v", name, errs)
		}
	}
}

// set sets every field of a value to a value other than its zero value.
func set(v reflect.Value) {
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		set(key)
		set(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				set(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}
