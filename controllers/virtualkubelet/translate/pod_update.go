// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// UpdateShadowPod copies the fields that may change in a running pod from the desired to the existing shadow pod:
// labels, annotations, images, CPU and memory, the active deadline, new tolerations and new ephemeral containers. It
// reports whether existing changed. The cached existing shadow pod has only these fields, and of ephemeral containers
// only the names: no other field may be read here.
func UpdateShadowPod(existing, desired *v1alpha1.ShadowPod) bool {
	keepTokenSecret(existing, desired)
	changed := false
	if !maps.Equal(existing.Labels, desired.Labels) {
		existing.Labels, changed = desired.Labels, true
	}
	if !maps.Equal(existing.Annotations, desired.Annotations) {
		existing.Annotations, changed = desired.Annotations, true
	}
	old, spec := &existing.Spec.Pod, &desired.Spec.Pod
	if !ptr.Equal(old.ActiveDeadlineSeconds, spec.ActiveDeadlineSeconds) {
		old.ActiveDeadlineSeconds, changed = spec.ActiveDeadlineSeconds, true
	}
	if updateImages(old.Containers, spec.Containers) {
		changed = true
	}
	if updateImages(old.InitContainers, spec.InitContainers) {
		changed = true
	}
	if podspec.Resize(old.Containers, spec.Containers) {
		changed = true
	}
	if podspec.Resize(old.InitContainers, spec.InitContainers) {
		changed = true
	}
	if updateTolerations(old, spec.Tolerations) {
		changed = true
	}
	if missing := MissingEphemeralContainers(existing, desired); len(missing) > 0 {
		old.EphemeralContainers, changed = append(old.EphemeralContainers, missing...), true
	}
	return changed
}

// Resizes reports whether the desired shadow pod has other amounts of CPU or memory than the existing one.
func Resizes(existing, desired *v1alpha1.ShadowPod) bool {
	old, spec := existing.Spec.Pod.DeepCopy(), &desired.Spec.Pod
	return podspec.Resize(old.Containers, spec.Containers) || podspec.Resize(old.InitContainers, spec.InitContainers)
}

// KeepResources removes requests and limits from the containers of a desired shadow pod, so that UpdateShadowPod does
// not change those of the existing one.
func KeepResources(desired *v1alpha1.ShadowPod) {
	for _, containers := range [][]corev1.Container{desired.Spec.Pod.Containers, desired.Spec.Pod.InitContainers} {
		for i := range containers {
			containers[i].Resources = corev1.ResourceRequirements{}
		}
	}
}

// MissingEphemeralContainers returns the ephemeral containers of the desired shadow pod that the existing one does not
// have.
func MissingEphemeralContainers(existing, desired *v1alpha1.ShadowPod) []corev1.EphemeralContainer {
	var missing []corev1.EphemeralContainer
	for _, container := range desired.Spec.Pod.EphemeralContainers {
		if !slices.ContainsFunc(
			existing.Spec.Pod.EphemeralContainers,
			func(c corev1.EphemeralContainer) bool { return c.Name == container.Name },
		) {
			missing = append(missing, container)
		}
	}
	return missing
}

func updateImages(existing, desired []corev1.Container) bool {
	changed := false
	for i := range existing {
		j := slices.IndexFunc(desired, func(c corev1.Container) bool { return c.Name == existing[i].Name })
		if j >= 0 && existing[i].Image != desired[j].Image {
			existing[i].Image, changed = desired[j].Image, true
		}
	}
	return changed
}

// updateTolerations adds new tolerations and changes tolerationSeconds of existing ones. It removes none, because the
// tolerations of an existing pod cannot be removed. It reports whether existing changed.
func updateTolerations(existing *corev1.PodSpec, desired []corev1.Toleration) bool {
	changed := false
	for _, toleration := range desired {
		i := slices.IndexFunc(existing.Tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = toleration.TolerationSeconds
			return t == toleration
		})
		switch {
		case i < 0:
			existing.Tolerations, changed = append(existing.Tolerations, toleration), true
		case !ptr.Equal(existing.Tolerations[i].TolerationSeconds, toleration.TolerationSeconds):
			existing.Tolerations[i], changed = toleration, true
		}
	}
	return changed
}
