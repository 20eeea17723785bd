// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podspec has the rules about pods that several components share: which pods are finished, need
// tokens or belong to one node, and which fields of pods are forwarded to providers or can change.
package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finished reports whether a pod has phase Succeeded or Failed.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// BelongsToItsNode reports whether a pod is a static pod or a pod of a DaemonSet. Placement does not
// apply to such a pod, because it would be created again on the same node. The admission policy
// federation-placement exempts the same pods.
func BelongsToItsNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// MountsClaims reports whether a pod mounts claims or ephemeral volumes.
func MountsClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
	})
}
