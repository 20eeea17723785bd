// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import "testing"

func TestPeeringTokens(t *testing.T) {
	lifecycle{
		kind: "PeeringToken", resource: "peeringtokens", short: "pt", name: "for-turin",
		spec:   fields{"consumerClusterID": "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "expirationSeconds": 600},
		status: fields{"used": true, "usedBy": "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"},
		header: []string{"CONSUMER", "EXPIRES", "USED", "AGE"},
		row:    []string{"3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "9m", "true"},
		badSpecs: map[string]fields{
			"spec.consumerClusterID": {"consumerClusterID": "turin"}, "spec.expirationSeconds": {"expirationSeconds": 599},
		},
		badStatuses: map[string]fields{"status.used": {"used": false}, "status.usedBy": {"usedBy": "turin"}},
	}.run(t)
}
