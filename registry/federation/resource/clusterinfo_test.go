// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"testing"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestCellsOfRangesNameTheirSources(t *testing.T) {
	info := &federation.ClusterInfo{Status: federation.ClusterInfoStatus{Ranges: []federation.ClusterRange{
		{Use: federation.RangeOfPods, CIDR: "10.244.0.0/16", Source: "Calico"}, {Use: federation.RangeOfPods, CIDR: "fd00:1::/48", Source: "Calico"},
		{Use: federation.RangeOfPods, CIDR: "10.50.0.0/16", Source: "Flannel"},
		{Use: federation.RangeOfNodes, CIDR: "192.168.0.1/32", Source: "Node"}, {Use: federation.RangeOfNodes, CIDR: "192.168.0.2/32", Source: "Node"},
		{Use: federation.RangeOfNodes, CIDR: "192.168.0.4/32", Source: "Node"}, {Use: federation.RangeOfNodes, CIDR: "192.168.0.8/32", Source: "Node"},
		{Use: federation.RangeOfNodes, CIDR: "192.168.0.16/32", Source: "Node"},
	}}}
	for use, want := range map[federation.ClusterRangeUse]string{
		federation.RangeOfPods:     "10.244.0.0/16,fd00:1::/48 (Calico),10.50.0.0/16 (Flannel)",
		federation.RangeOfNodes:    "192.168.0.1/32,192.168.0.2/32,192.168.0.4/32,192.168.0.8/32,1 more (Node)",
		federation.RangeOfServices: "<none>",
	} {
		if got := ranges(use)(info); got != want {
			t.Errorf("%s: got %v, want %s", use, got, want)
		}
	}
}
