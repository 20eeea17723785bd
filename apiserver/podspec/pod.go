// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podspec has what several components must agree on about pods: which of them have
// ended, need tokens, or belong to one node, and which of their fields may change.
package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finished tells whether a pod has run to its end.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// BelongsToItsNode tells whether a pod would be made again on the same node,
// whatever placement says. The admission policy leaves the same pods alone.
func BelongsToItsNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// MountsClaims tells whether a pod has volumes by claims, which stay where they
// are made.
func MountsClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
	})
}
