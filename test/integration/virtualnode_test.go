// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestVirtualNodes(t *testing.T) {
	lifecycle{
		kind: "VirtualNode", resource: "virtualnodes", short: "vn", name: "turin",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec: fields{"clusterID": "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "nodeName": "liqo-turin", "offerName": "turin",
			"resources": fields{"cpu": "2", "memory": "4Gi", "pods": "10"}},
		change: fields{"labels": fields{"topology.liqo.io/region": "turin"}},
		status: fields{"pods": 3, "observedGeneration": 1,
			"conditions": []any{fields{"type": "Ready", "status": "True", "reason": "Done", "message": "all is well", "lastTransitionTime": "2026-11-21T08:00:00Z"}}},
		header: []string{"CLUSTER", "NODE", "READY", "SINCE", "PODS", "CPU", "MEMORY", "AGE", "OFFER", "OFFERED NODE"},
		row: []string{"3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "liqo-turin", "True", "2d", "3/10", "2", "4Gi",
			"turin", "<none>"},
		badSpecs: map[string]fields{
			"spec.offloadingPatch.tolerations[0].key": {"offloadingPatch": fields{"tolerations": []any{fields{"operator": "Exists"}}}},
			"spec.offeredNode":                        {"offeredNode": "worker/1"},
			"spec.clusterID":                          {"clusterID": "turin"}, "spec.nodeName": {"nodeName": "turin"}, "spec.resources[cpu]": {"resources": fields{"cpu": "-1"}},
		},
		badStatuses: map[string]fields{"status.pods": {"pods": -1}},
	}.run(t)
}
