// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestShadowPods(t *testing.T) {
	container := func(image string) []any { return []any{fields{"name": "web", "image": image}} }
	pod := func(more fields) fields {
		return fields{"pod": merge(fields{"automountServiceAccountToken": false,
			"containers": container("example.org/web:1")}, more)}
	}
	lifecycle{
		kind: "ShadowPod", resource: "shadowpods", short: "sp", name: "web-0", held: true,
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      pod(nil),
		change:    pod(fields{"containers": container("example.org/web:2")}),
		status: fields{"phase": "Succeeded",
			"conditions": []any{fields{"type": "Ready", "status": "True", "reason": "Done", "message": "all is well", "lastTransitionTime": "2026-11-21T08:00:00Z"}}},
		header: []string{"STATUS", "AGE"},
		row:    []string{"Succeeded"},
		badSpecs: map[string]fields{
			"spec.pod": pod(fields{"hostNetwork": true}), "spec.pod.nodeName": pod(fields{"nodeName": "milan-cp"}), "spec.pod.serviceAccountName": pod(fields{"serviceAccountName": "admin"}),
			"spec.pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector": pod(
				fields{"affinity": fields{"podAntiAffinity": fields{
					"requiredDuringSchedulingIgnoredDuringExecution": []any{fields{"topologyKey": "kubernetes.io/hostname", "namespaceSelector": fields{}}}}}}),
			"spec.pod.automountServiceAccountToken": pod(fields{"automountServiceAccountToken": true}), "spec.pod.priorityClassName": pod(fields{"priorityClassName": "system-node-critical"}),
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Failed"}},
	}.run(t)
}
