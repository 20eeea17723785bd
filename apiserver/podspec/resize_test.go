// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestResize(t *testing.T) {
	amounts := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return list
	}
	container := func(name string, requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	for _, test := range []struct {
		name                 string
		had, requested, want corev1.Container
		changed              bool
	}{
		{"more and less", container("a", amounts("cpu", "1", "memory", "2Gi"), nil),
			container("a", amounts("cpu", "2", "memory", "1Gi"), nil),
			container("a", amounts("cpu", "2", "memory", "1Gi"), nil), true},
		{"a limit", container("a", nil, amounts("cpu", "1")), container("a", nil, amounts("cpu", "2")), container("a", nil, amounts("cpu", "2")), true},
		{"no earlier request", container("a", nil, nil), container("a", amounts("cpu", "1"), nil), container("a", amounts("cpu", "1"), nil), true},
		{"the same amount in another form", container("a", amounts("cpu", "1"), nil), container("a", amounts("cpu", "1000m"), nil), container("a", amounts("cpu", "1"), nil), false},
		{"no amounts", container("a", amounts("cpu", "1"), amounts("memory", "1Gi")), container("a", nil, nil), container("a", amounts("cpu", "1"), amounts("memory", "1Gi")), false},
		{"another resource", container("a", amounts("nvidia.com/gpu", "1"), nil), container("a", amounts("nvidia.com/gpu", "2"), nil), container("a", amounts("nvidia.com/gpu", "1"), nil), false},
		{"another container", container("a", amounts("cpu", "1"), nil), container("b", amounts("cpu", "2"), nil), container("a", amounts("cpu", "1"), nil), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.had.DeepCopy()
			got := []corev1.Container{test.had}
			if changed := Resize(got, []corev1.Container{test.requested}); changed != test.changed {
				t.Errorf("changed is %t", changed)
			}
			if diff := cmp.Diff([]corev1.Container{test.want}, got); diff != "" {
				t.Errorf("the container (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, test.had); diff != "" {
				t.Errorf("the resource lists were modified:\n%s", diff)
			}
		})
	}
}
