// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPodsLeaveNamespacesOfUsersAlone(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, scheduling, role string
		want                        bool
	}{
		"one that is offloaded":           {"shop", "true", "", true},
		"one that is not":                 {"shop", "", "", false},
		"one that is so no more":          {"shop", "false", "", false},
		"a twin":                          {"shop", "true", v1alpha1.RoleTwin, false},
		"one of Kubernetes":               {"kube-system", "true", "", false},
		"that of leases":                  {"kube-node-lease", "true", "", false},
		"that of the installation":        {"liqo", "true", "", false},
		"that of invitations":             {"liqo-invitations", "true", "", false},
		"one that begins like Kubernetes": {"kube-shop", "true", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.namespace, Labels: map[string]string{
				v1alpha1.LabelSchedulingEnabled: test.scheduling, v1alpha1.LabelRole: test.role,
			}}}
			if got := Offloaded(namespace, "liqo", "liqo-invitations"); got != test.want {
				t.Errorf("its pods leave: %t", got)
			}
		})
	}
}

func TestAPodNeedsTokensThatItMountsWhileItRuns(t *testing.T) {
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
		"one that mounts a token":             {func(*corev1.Pod) {}, true},
		"one that runs":                       {phase(corev1.PodRunning), true},
		"one that says that it talks to home": {access("Home"), true},
		"one that keeps its tokens at home":   {access("Disabled"), false},
		"one that says something else":        {access(""), false},
		"one that has succeeded":              {phase(corev1.PodSucceeded), false},
		"one that has failed":                 {phase(corev1.PodFailed), false},
		"one that mounts nothing":             {func(pod *corev1.Pod) { pod.Spec.Volumes = nil }, false},
		"one that mounts certificates": {func(pod *corev1.Pod) {
			pod.Spec.Volumes[0].Projected.Sources = pod.Spec.Volumes[0].Projected.Sources[:1]
		}, false},
		"one that mounts a directory of no one": {func(pod *corev1.Pod) { pod.Spec.Volumes[0].Projected = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
			}}}}}}
			test.change(pod)
			if needs := NeedsTokens(pod); needs != test.needs {
				t.Errorf("it needs tokens: %t, want %t", needs, test.needs)
			}
		})
	}
}
