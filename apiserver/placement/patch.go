// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch returns the JSON patch that applies a decision to a pod. The patch contains only the changed
// fields, because the pod may have fields that this version of the API does not define.
func (d Decision) Patch(pod *corev1.Pod) []Operation {
	var patch []Operation
	add := func(path string, value any) { patch = append(patch, Operation{Op: "add", Path: path, Value: value}) }
	if d.Tolerate {
		if len(pod.Spec.Tolerations) == 0 {
			add("/spec/tolerations", []corev1.Toleration{Toleration})
		} else {
			add("/spec/tolerations/-", Toleration)
		}
	}
	if d.Terms != nil {
		if pod.Spec.Affinity == nil {
			add("/spec/affinity", struct{}{})
		}
		if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
			add("/spec/affinity/nodeAffinity", struct{}{})
		}
		add("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
			corev1.NodeSelector{NodeSelectorTerms: d.Terms})
	}
	gate := corev1.PodSchedulingGate{Name: v1alpha1.SchedulingGateMoving}
	if d.Gated && !slices.Contains(pod.Spec.SchedulingGates, gate) {
		if len(pod.Spec.SchedulingGates) == 0 {
			add("/spec/schedulingGates", []corev1.PodSchedulingGate{gate})
		} else {
			add("/spec/schedulingGates/-", gate)
		}
	}
	return patch
}
