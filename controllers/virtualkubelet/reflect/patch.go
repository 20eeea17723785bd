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
	brought := spec.Affinity
	spec.Affinity = patch.Affinity
	if brought == nil {
		return
	}
	if own := brought.PodAffinity; own != nil {
		if spec.Affinity.PodAffinity == nil {
			spec.Affinity.PodAffinity = &corev1.PodAffinity{}
		}
		all := spec.Affinity.PodAffinity
		all.RequiredDuringSchedulingIgnoredDuringExecution = append(own.RequiredDuringSchedulingIgnoredDuringExecution, all.RequiredDuringSchedulingIgnoredDuringExecution...)
		all.PreferredDuringSchedulingIgnoredDuringExecution = append(own.PreferredDuringSchedulingIgnoredDuringExecution, all.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if own := brought.PodAntiAffinity; own != nil {
		if spec.Affinity.PodAntiAffinity == nil {
			spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		all := spec.Affinity.PodAntiAffinity
		all.RequiredDuringSchedulingIgnoredDuringExecution = append(own.RequiredDuringSchedulingIgnoredDuringExecution, all.RequiredDuringSchedulingIgnoredDuringExecution...)
		all.PreferredDuringSchedulingIgnoredDuringExecution = append(own.PreferredDuringSchedulingIgnoredDuringExecution, all.PreferredDuringSchedulingIgnoredDuringExecution...)
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
