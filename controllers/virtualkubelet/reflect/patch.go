// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// applyPatch gives a pod what the patch of its virtual node has for it. The
// patch is taken apart.
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
	// No node affinity of the pod's own arrives.
	own := spec.Affinity
	spec.Affinity = patch.Affinity
	if own == nil {
		return
	}
	spec.Affinity.PodAffinity = join(own.PodAffinity, spec.Affinity.PodAffinity)
	// They have the same fields.
	spec.Affinity.PodAntiAffinity = (*corev1.PodAntiAffinity)(join((*corev1.PodAffinity)(own.PodAntiAffinity), (*corev1.PodAffinity)(spec.Affinity.PodAntiAffinity)))
}

// join is both affinities, either of which may be nil.
func join(own, more *corev1.PodAffinity) *corev1.PodAffinity {
	if own == nil {
		return more
	}
	if more == nil {
		return own
	}
	return &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  append(own.RequiredDuringSchedulingIgnoredDuringExecution, more.RequiredDuringSchedulingIgnoredDuringExecution...),
		PreferredDuringSchedulingIgnoredDuringExecution: append(own.PreferredDuringSchedulingIgnoredDuringExecution, more.PreferredDuringSchedulingIgnoredDuringExecution...),
	}
}

// without are labels or annotations but for some keys; never nil.
func without(all map[string]string, staying []string) map[string]string {
	result := maps.Clone(all)
	if result == nil {
		return map[string]string{}
	}
	for _, key := range staying {
		delete(result, key)
	}
	return result
}
