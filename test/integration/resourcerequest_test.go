// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestResourceRequests(t *testing.T) {
	lifecycle{
		kind: "ResourceRequest", resource: "resourcerequests", short: "rr", name: "turin",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      fields{"resources": fields{"cpu": "2", "memory": "4Gi", "pods": "10"}},
		change:    fields{"resources": fields{"cpu": "3", "memory": "4Gi", "pods": "10"}},
		status:    fields{"phase": "Accepted", "offerName": "milan", "observedGeneration": 1},
		header:    []string{"LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE"},
		row:       []string{"false", "Accepted", "3", "4Gi", "10"},
		badSpecs: map[string]fields{
			"spec.resources[memory]": {"resources": fields{"memory": "-1"}}, "spec.resources[pods]": {"resources": fields{"pods": "500m"}},
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Great"}, "status.offerName": {"offerName": "a/b"}},
	}.run(t)
}
