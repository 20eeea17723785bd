// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

func TestNetworkConfigs(t *testing.T) {
	lifecycle{
		kind: "NetworkConfig", resource: "networkconfigs", short: "netcfg", name: v1alpha1.NetworkConfigOfProvider,
		namespace: func(t *testing.T, env *framework.Environment) string {
			return makeNamespaceOf(t, env, tenantOf("asti"), v1alpha1.RoleTenant, "asti")
		},
		spec: fields{"clusterID": genoaID, "podCIDRs": []any{"10.244.0.0/16"}, "externalCIDRs": []any{"10.70.0.0/16"},
			"publicKey": publicKey,
			"endpoints": []any{"genoa.example.org:51820"}},
		change: fields{"podCIDRs": []any{"10.244.0.0/16", "10.245.0.0/16"}, "mtu": 1420},
		status: fields{"observedGeneration": 1, "cidrs": []any{
			fields{"cidr": "10.244.0.0/16", "mapped": "10.243.0.0/16"}, fields{"cidr": "10.70.0.0/16", "mapped": "10.70.0.0/16"},
		}},
		header: []string{"LOCAL", "CIDRS", "MAPPED", "ACCEPTED", "AGE", "ENDPOINTS", "CLUSTER ID"},
		row: []string{"true", "10.244.0.0/16,10.245.0.0/16,10.70.0.0/16", "10.243.0.0/16,10.70.0.0/16", "Unknown",
			"genoa.example.org:51820", genoaID},
		badSpecs: map[string]fields{
			"spec.clusterID": {"clusterID": "genoa"}, "spec.podCIDRs[0]": {"podCIDRs": []any{"0.0.0.0/0"}}, "spec.publicKey": {"publicKey": "key"},
			"spec.endpoints[0]": {"endpoints": []any{"127.0.0.1:51820"}}, "spec.mtu": {"mtu": 500}, "spec.externalCIDRs[0]": {"externalCIDRs": []any{"10.244.1.0/24"}},
		},
		badStatuses: map[string]fields{"status.cidrs[0].mapped": {"cidrs": []any{fields{"cidr": "10.244.0.0/16",
			"mapped": "10.243.0.0/17"}}}},
	}.run(t)
}

func TestTunnelEndpoints(t *testing.T) {
	lifecycle{
		kind: "TunnelEndpoint", resource: "tunnelendpoints", short: "te", name: "genoa",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec: fields{"clusterID": genoaID, "publicKey": publicKey, "endpoints": []any{"genoa.example.org:51820"},
			"local":  []any{fields{"cidr": "10.244.0.0/16", "mapped": "10.243.0.0/16"}},
			"remote": []any{fields{"cidr": "10.244.0.0/16", "mapped": "10.242.0.0/16"}}},
		change: fields{"mtu": 1420, "endpoints": []any{"genoa.example.org:51821"}},
		status: fields{"observedGeneration": 1, "phase": "Connected", "endpoint": "192.0.2.7:40000", "gateway": "asti-1",
			"implementation": "kernel", "latencyMicroseconds": 12345},
		header: []string{"CLUSTER", "ENDPOINT", "STATUS", "LATENCY", "AGE", "GATEWAY", "IMPLEMENTATION", "REMOTE", "LOCAL"},
		row: []string{genoaID, "192.0.2.7:40000", "Connected", "12.3ms", "asti-1", "kernel", "10.242.0.0/16",
			"10.243.0.0/16"},
		badSpecs: map[string]fields{
			"spec.clusterID": {"clusterID": "genoa"}, "spec.publicKey": {"publicKey": "key"}, "spec.local": {"local": []any{}},
			"spec.remote[0].mapped": {"remote": []any{fields{"cidr": "10.244.0.0/16", "mapped": "fd00::/16"}}},
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Great"},
			"status.implementation": {"implementation": "other"}},
	}.run(t)
}
