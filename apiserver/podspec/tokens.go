// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// UsesConsumerAPI reports whether the annotation liqo.io/api-access of a pod permits access to the
// consumer's API server. Without the annotation, access is permitted. The caller checks apiAccess of
// the virtual node.
func UsesConsumerAPI(pod *corev1.Pod) bool {
	mode, annotated := pod.Annotations[v1alpha1.AnnotationAPIAccess]
	return !annotated || mode == string(v1alpha1.APIAccessConsumer)
}

// MountsToken reports whether a pod mounts a token of its ServiceAccount.
func MountsToken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.Projected != nil &&
			slices.ContainsFunc(volume.Projected.Sources, func(source corev1.VolumeProjection) bool {
				return source.ServiceAccountToken != nil
			})
	})
}

// NeedsTokens reports whether a pod on a provider needs tokens of its ServiceAccount: it mounts a
// token, its annotation permits access, and it is not finished. The caller checks apiAccess of the
// virtual node.
func NeedsTokens(pod *corev1.Pod) bool {
	return UsesConsumerAPI(pod) && MountsToken(pod) && !Finished(pod)
}
