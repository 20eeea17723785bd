// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestShadowPodsWithTheSameImagesShareThem(t *testing.T) {
	trimmed := func(containers ...corev1.Container) []corev1.Container {
		obj, err := trimShadowPod(&v1alpha1.ShadowPod{Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: containers}}})
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*v1alpha1.ShadowPod).Spec.Pod.Containers
	}
	web, db := corev1.Container{Name: "web", Image: "web:1"}, corev1.Container{Name: "db", Image: "db:1"}
	one, same := trimmed(web, db), trimmed(corev1.Container{Name: "web", Image: "web:1", Args: []string{"serve"}}, db)
	if &one[0] != &same[0] {
		t.Error("what is the same is held twice")
	}
	sized := func(requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, other := range [][]corev1.Container{
		{web}, {db, web}, {web, {Name: "db", Image: "db:2"}}, {}, {sized(cpu, nil)}, {sized(nil, cpu)}, {sized(cpu, cpu)},
		{sized(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}, nil)},
	} {
		if diff := cmp.Diff(other, trimmed(other...)); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
	}
}
