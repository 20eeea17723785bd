// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPodThatMountsATokenNeedsTokensUntilItEnds(t *testing.T) {
	access := func(mode string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations = map[string]string{v1alpha1.AnnotationAPIAccess: mode} }
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Phase = phase }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		needs  bool
	}{
		"a pod that mounts a token":  {func(*corev1.Pod) {}, true},
		"a pod that runs":            {phase(corev1.PodRunning), true},
		"a pod with access Consumer": {access("Consumer"), true},
		"a pod with access Disabled": {access("Disabled"), false},
		"a pod with another access":  {access(""), false},
		"a pod that has succeeded":   {phase(corev1.PodSucceeded), false},
		"a pod that has failed":      {phase(corev1.PodFailed), false},
		"a pod that mounts nothing":  {func(pod *corev1.Pod) { pod.Spec.Volumes = nil }, false},
		"a pod that mounts certificates": {func(pod *corev1.Pod) {
			pod.Spec.Volumes[0].Projected.Sources = pod.Spec.Volumes[0].Projected.Sources[:1]
		}, false},
		"a pod that mounts an empty projection": {func(pod *corev1.Pod) { pod.Spec.Volumes[0].Projected = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{
					Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
						Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{}},
							{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
					}}}}}}
			test.change(pod)
			if needs := NeedsTokens(pod); needs != test.needs {
				t.Errorf("got %t, want %t", needs, test.needs)
			}
		})
	}
}
