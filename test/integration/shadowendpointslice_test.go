// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestShadowEndpointSlices(t *testing.T) {
	endpoints := func(addresses ...string) []any {
		var list []any
		for _, address := range addresses {
			list = append(list, fields{"addresses": []any{address}, "conditions": fields{"ready": true}})
		}
		return list
	}
	slice := func(more fields) fields {
		return merge(fields{"addressType": "IPv4", "ports": []any{fields{"name": "http", "port": 80, "protocol": "TCP"}},
			"endpoints": endpoints("10.8.0.1")}, more)
	}
	lifecycle{
		kind: "ShadowEndpointSlice", resource: "shadowendpointslices", short: "seps", name: "web-abcde",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      slice(nil),
		change:    slice(fields{"endpoints": endpoints("10.8.0.1", "10.8.0.2")}),
		status: fields{"conditions": []any{fields{"type": "Ready", "status": "False", "reason": "HeartbeatExpired",
			"message": "all is quiet", "lastTransitionTime": "2026-11-21T08:00:00Z"}}},
		header: []string{"SERVICE", "ADDRESS TYPE", "ENDPOINTS", "STATUS", "AGE"},
		row:    []string{"<none>", "IPv4", "2", "HeartbeatExpired"},
		badSpecs: map[string]fields{
			"spec.addressType":               slice(fields{"addressType": "FQDN", "endpoints": []any{}}),
			"spec.endpoints[0].addresses[0]": slice(fields{"endpoints": endpoints("127.0.0.1")}),
			"spec.endpoints[1].addresses[0]": slice(fields{"endpoints": endpoints("10.8.0.1", "169.254.169.254")}),
			"spec.ports[0].port":             slice(fields{"ports": []any{fields{"name": "http", "port": 0, "protocol": "TCP"}}}),
			"spec.ports[0].protocol":         slice(fields{"ports": []any{fields{"name": "http", "port": 80, "protocol": "ICMP"}}}),
		},
		badStatuses: map[string]fields{"status.conditions[0].status": {"conditions": []any{fields{"type": "Ready",
			"status": "Maybe", "reason": "X", "message": "", "lastTransitionTime": "2026-11-21T08:00:00Z"}}}},
	}.run(t)
}
