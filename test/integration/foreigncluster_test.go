// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import "testing"

func TestForeignClusters(t *testing.T) {
	lifecycle{
		kind: "ForeignCluster", resource: "foreignclusters", short: "fc", name: "turin", held: true,
		spec: fields{"clusterID": "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "outgoing": "Enabled",
			"server": "https://turin.example.org:6443", "disconnectTimeoutSeconds": 60},
		change: fields{"resources": fields{"cpu": "2", "memory": "4Gi"}},
		status: fields{"outgoingPeering": "Established", "incomingPeering": "None", "networking": "None",
			"authentication": "Established", "virtualNodes": 1, "conditions": []any{fields{"type": "Ready", "status": "True", "reason": "Done", "message": "all is well", "lastTransitionTime": "2026-11-21T08:00:00Z"}},
			"policies": []any{fields{"name": "reach", "binds": "Both", "value": "All", "source": "Trust"}}},
		header: []string{"OUTGOING PEERING", "INCOMING PEERING", "NETWORKING", "AUTHENTICATION", "AGE", "CLUSTER ID",
			"LATENCY", "VIRTUAL NODES", "TRUST", "SERVER"},
		row: []string{"Established", "None", "None", "Established", "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "<none>", "1",
			"SameOwner",
			"https://turin.example.org:6443"},
		badSpecs: map[string]fields{
			"spec.clusterID": {"clusterID": "turin"}, "spec.server": {"server": "https://127.0.0.1:6443"}, "spec.outgoing": {"outgoing": "Maybe"},
			"spec.caBundle": {"caBundle": "bm90IFBFTQ=="}, "spec.resources[cpu]": {"resources": fields{"cpu": "-1"}}, "spec.disconnectTimeoutSeconds": {"disconnectTimeoutSeconds": -1},
			"spec.invitationSecretName": {"invitationSecretName": "../other"},
		},
		badStatuses: map[string]fields{
			"status.outgoingPeering": {"outgoingPeering": "Great"}, "status.peerNamespace": {"peerNamespace": "../x"}, "status.virtualNodes": {"virtualNodes": -1},
			"status.policies[0].value": {"policies": []any{fields{"name": "reach", "binds": "Both", "value": "\x1b[2J", "source": "Trust"}}},
		},
	}.run(t)
}
