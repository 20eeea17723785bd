// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/podspec"
)

func TestEveryFieldOfAPodHasADecision(t *testing.T) {
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid"}}
	fill(reflect.ValueOf(&local.Spec).Elem())
	got := ShadowPod(local, "demo-rome", destination, nil).Spec.Pod
	decided(t, podspec.PodFields, local.Spec, got)
	decided(t, podspec.ContainerFields, local.Spec.Containers[0], got.Containers[0])
	decided(t, podspec.ContainerFields, local.Spec.InitContainers[0], got.InitContainers[0])
	decided(t, podspec.ContainerFields, corev1.Container(local.Spec.EphemeralContainers[0].EphemeralContainerCommon),
		corev1.Container(got.EphemeralContainers[0].EphemeralContainerCommon))
	target := got.EphemeralContainers[0].TargetContainerName
	if target != local.Spec.EphemeralContainers[0].TargetContainerName {
		t.Errorf("the ephemeral container targets %q", target)
	}
}

// decided compares a value in which all fields are set with its translation, by the decision for each field. The
// results of fields with decision Translated are tested elsewhere.
func decided(t *testing.T, fields []podspec.Field, before, after any) {
	t.Helper()
	old, now := reflect.ValueOf(before), reflect.ValueOf(after)
	decisions := map[string]podspec.Field{}
	for _, field := range fields {
		if field.Page == "" {
			t.Errorf("%s is not described on the page about pods", field.Name)
		}
		decisions[field.Name] = field
	}
	for i := range old.NumField() {
		name := old.Type().Field(i).Name
		was, is := old.Field(i), now.Field(i)
		field, known := decisions[name]
		switch {
		case !known:
			t.Errorf(
				"Kubernetes has a field %s of %s: decide in apiserver/podspec how it is forwarded", name, old.Type(),
			)
		case was.IsZero():
			t.Errorf("the test did not set %s", name)
		case field.Translation == podspec.Dropped && !is.IsZero():
			t.Errorf("%s was forwarded: %v", name, is)
		case field.Translation == podspec.Forwarded:
			if diff := cmp.Diff(was.Interface(), is.Interface()); diff != "" {
				t.Errorf("%s was changed:\n%s", name, diff)
			}
		case field.Translation == podspec.Disabled:
			if diff := cmp.Diff(ptr.To(false), is.Interface()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if len(fields) != old.NumField() || len(decisions) != old.NumField() {
		t.Errorf("%d fields of %s are decided, it has %d", len(fields), old.Type(), old.NumField())
	}
}

// fill sets all fields of a value to something other than zero.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case metav1.Time:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
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
