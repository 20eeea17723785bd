// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// applyPatch applies the offloading patch of the virtual node to a pod's specification. It may modify the patch, and
// both share memory afterwards.
func applyPatch(spec *corev1.PodSpec, patch *v1alpha1.OffloadingPatch) {
	spec.NodeSelector = patch.NodeSelector
	if patch.RuntimeClassName != nil {
		spec.RuntimeClassName = patch.RuntimeClassName
		if *patch.RuntimeClassName == "" {
			spec.RuntimeClassName = nil
		}
	}
	updateTolerations(spec, patch.Tolerations)
	if patch.Affinity == nil {
		return
	}
	// The pod's node affinity refers to nodes of the consumer and is not used.
	own := spec.Affinity
	spec.Affinity = patch.Affinity
	if own == nil {
		return
	}
	spec.Affinity.PodAffinity = join(own.PodAffinity, spec.Affinity.PodAffinity)
	// PodAffinity and PodAntiAffinity have the same fields.
	spec.Affinity.PodAntiAffinity = (*corev1.PodAntiAffinity)(
		join((*corev1.PodAffinity)(own.PodAntiAffinity), (*corev1.PodAffinity)(spec.Affinity.PodAntiAffinity)),
	)
}

// join returns a pod affinity with the terms of both; either may be nil.
func join(own, more *corev1.PodAffinity) *corev1.PodAffinity {
	if own == nil {
		return more
	}
	if more == nil {
		return own
	}
	return &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: append(
			own.RequiredDuringSchedulingIgnoredDuringExecution,
			more.RequiredDuringSchedulingIgnoredDuringExecution...),
		PreferredDuringSchedulingIgnoredDuringExecution: append(
			own.PreferredDuringSchedulingIgnoredDuringExecution,
			more.PreferredDuringSchedulingIgnoredDuringExecution...),
	}
}

// without returns a copy of labels or annotations without the excluded keys; never nil.
func without(all map[string]string, excluded []string) map[string]string {
	result := maps.Clone(all)
	if result == nil {
		return map[string]string{}
	}
	for _, key := range excluded {
		delete(result, key)
	}
	return result
}
