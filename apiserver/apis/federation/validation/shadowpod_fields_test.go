// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// ask is what a stranger may write into a field of a pod.
type ask int

const (
	// free is about the pod itself, or about what is in its namespace.
	free ask = iota
	// refused is none of a stranger's business, whatever the value.
	refused
	// checked is looked into, by Pod Security or here; see escapes.
	checked
	// overwritten is the provider's to say, whatever was written: see
	// TestPodOfAShadowPodHasNothingOfThisCluster.
	overwritten
)

// asks are all fields of a PodSpec. Kubernetes adds fields: what a stranger
// may do with one is decided here.
var asks = map[string]ask{
	"Volumes":                   checked,
	"InitContainers":            checked,
	"Containers":                checked,
	"EphemeralContainers":       refused,
	"SecurityContext":           checked,
	"NodeSelector":              checked,
	"Affinity":                  checked,
	"Tolerations":               checked,
	"TopologySpreadConstraints": free,

	"NodeName":                 refused,
	"SchedulerName":            refused,
	"SchedulingGroup":          refused,
	"EvictionResponders":       refused,
	"Priority":                 refused,
	"PriorityClassName":        refused,
	"HostNetwork":              refused,
	"HostPID":                  refused,
	"HostIPC":                  refused,
	"ServiceAccountName":       refused,
	"DeprecatedServiceAccount": refused,

	"AutomountServiceAccountToken": refused,
	"EnableServiceLinks":           overwritten,

	"RestartPolicy":                 free,
	"TerminationGracePeriodSeconds": free,
	"ActiveDeadlineSeconds":         free,
	"DNSPolicy":                     free,
	"DNSConfig":                     free,
	"ShareProcessNamespace":         free,
	"ImagePullSecrets":              free,
	"Hostname":                      free,
	"HostnameOverride":              free,
	"Subdomain":                     free,
	"SetHostnameAsFQDN":             free,
	"HostAliases":                   free,
	"HostUsers":                     free,
	"RuntimeClassName":              free,
	"OS":                            free,
	"ResourceClaims":                free,
	"Resources":                     free,
	"ReadinessGates":                free,
	"SchedulingGates":               free,

	// Preemption is for pods of a higher priority, which none of these has; and
	// the overhead has to be that of the runtime class, or Kubernetes refuses it.
	"PreemptionPolicy": free,
	"Overhead":         free,
}

func TestEveryFieldOfAShadowPodIsDecided(t *testing.T) {
	kind := reflect.TypeFor[corev1.PodSpec]()
	if len(asks) != kind.NumField() {
		t.Errorf("%d fields of a pod are decided, it has %d", len(asks), kind.NumField())
	}
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		decided, known := asks[name]
		if !known {
			t.Errorf("Kubernetes has a field %s of pods: decide whether a stranger may write it", name)
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
		case decided == refused && len(errs) == 0:
			t.Errorf("%s can be written", name)
		case (decided == free || decided == overwritten) && len(errs) > 0:
			t.Errorf("%s cannot be written: %v", name, errs)
		}
	}
}

// TestEveryKindOfVolumeIsDecided asks for one volume of each kind that
// Kubernetes has: what a stranger's pod may mount is decided here.
func TestEveryKindOfVolumeIsDecided(t *testing.T) {
	own := map[string]bool{
		"ConfigMap": true, "Secret": true, "DownwardAPI": true, "Projected": true, "EmptyDir": true, "Image": true, "PersistentVolumeClaim": true,
	}
	sources := reflect.TypeFor[corev1.VolumeSource]()
	for i := range sources.NumField() {
		pod := goodPod()
		pod.Spec.Pod.Volumes = []corev1.Volume{{Name: "data"}}
		source := reflect.ValueOf(&pod.Spec.Pod.Volumes[0].VolumeSource).Elem().Field(i)
		source.Set(reflect.New(source.Type().Elem()))
		if errs := ValidateShadowPod(pod); (len(errs) == 0) != own[sources.Field(i).Name] {
			t.Errorf("a volume of kind %s: %v", sources.Field(i).Name, errs)
		}
		delete(own, sources.Field(i).Name)
	}
	if len(own) > 0 {
		t.Errorf("Kubernetes has no volumes of kind %v", own)
	}
}

// set sets everything in a value to something.
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
