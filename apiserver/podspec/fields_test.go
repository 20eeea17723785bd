// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestFieldTablesAreConsistent(t *testing.T) {
	for _, table := range []struct {
		of     reflect.Type
		fields []Field
	}{{reflect.TypeFor[corev1.PodSpec](), PodFields}, {reflect.TypeFor[corev1.Container](), ContainerFields}} {
		for _, field := range table.fields {
			declared, known := table.of.FieldByName(field.Name)
			switch {
			case !known:
				t.Errorf("%s has no field %s", table.of, field.Name)
			case field.Translation == Disabled && declared.Type != reflect.TypeFor[*bool]():
				t.Errorf("%s.%s cannot be disabled", table.of, field.Name)
			case field.Except != "" && declared.Type.Kind() != reflect.String:
				t.Errorf("%s.%s cannot have the value %q", table.of, field.Name, field.Except)
			case field.Refusal != "" && field.Admission != Refused:
				t.Errorf("%s.%s has a refusal and is not refused", table.of, field.Name)
			case field.Admission == Overwritten && field.Translation != Disabled:
				t.Errorf("%s.%s is not overwritten by Reset", table.of, field.Name)
			}
		}
	}
}

func TestForwardSharesNothingWithTheLocalPod(t *testing.T) {
	local := &corev1.PodSpec{
		NodeName: "liqo-milan", ServiceAccountName: "robot", Hostname: "web",
		Containers:          []corev1.Container{{Name: "app", Args: []string{"a"}}},
		EphemeralContainers: []corev1.EphemeralContainer{{TargetContainerName: "app"}},
	}
	before := local.DeepCopy()
	got := Forward(local)
	want := corev1.PodSpec{
		Hostname: "web", AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		Containers:          []corev1.Container{{Name: "app", Args: []string{"a"}}},
		EphemeralContainers: []corev1.EphemeralContainer{{TargetContainerName: "app"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the shadow pod (-want +got):\n%s", diff)
	}
	got.Containers[0].Args[0] = "b"
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local pod was changed:\n%s", diff)
	}
}

func TestRefusalsNameTheSetFields(t *testing.T) {
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want []string
	}{
		{"nothing", corev1.PodSpec{}, nil},
		{"values that are accepted", corev1.PodSpec{SchedulerName: "default-scheduler", ServiceAccountName: "default"}, nil},
		{
			"other values", corev1.PodSpec{SchedulerName: "other", DeprecatedServiceAccount: "robot"},
			[]string{"schedulerName", "serviceAccount"},
		},
		{"an empty list", corev1.PodSpec{EvictionResponders: []corev1.EvictionResponder{}}, nil},
		{"a zero that is set", corev1.PodSpec{Priority: ptr.To[int32](0)}, []string{"priority"}},
		{"a node", corev1.PodSpec{NodeName: "worker"}, []string{"nodeName"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, refused := range Refusals(&test.spec) {
				got = append(got, refused.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}
