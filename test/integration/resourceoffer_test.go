// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestResourceOffers(t *testing.T) {
	lifecycle{
		kind: "ResourceOffer", resource: "resourceoffers", short: "ro", name: "turin",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec: fields{"clusterID": "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11",
			"resources": fields{"cpu": "2", "memory": "4Gi", "pods": "10"}, "labels": fields{"topology.liqo.io/region": "turin"}},
		change: fields{"resources": fields{"cpu": "1", "memory": "4Gi", "pods": "10"}, "storageClasses": []any{"fast"},
			"nodes": []any{fields{"name": "a1b2", "resources": fields{"cpu": "1", "pods": "10"}, "labels": fields{"topology.kubernetes.io/zone": "north"}}}},
		status: fields{"phase": "Accepted", "observedGeneration": 1},
		header: []string{"LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE", "SHAPE", "NODES"},
		row:    []string{"false", "Accepted", "1", "4Gi", "10", "PerNode", "1"},
		badSpecs: map[string]fields{
			"spec.clusterID": {"clusterID": "turin"}, "spec.resources[cpu]": {"resources": fields{"cpu": "-1"}}, "spec.storageClasses[0]": {"storageClasses": []any{"a/b"}},
			"spec.nodes": {"nodes": []any{fields{"name": "a1b2", "resources": fields{"cpu": "3"}}}}, "spec.nodes[0].name": {"nodes": []any{fields{"name": "worker/1", "resources": fields{"cpu": "1"}}}},
			"spec.labels[node-role.kubernetes.io/control-plane]": {"labels": fields{"node-role.kubernetes.io/control-plane": ""}},
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Great"}},
	}.run(t)
}
