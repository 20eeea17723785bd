// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/hack/playground/state"
)

func TestRouterForwardsBetweenNodesOnly(t *testing.T) {
	i := &state.Instance{
		HostLink: state.HostLink{Host: netip.MustParsePrefix("172.30.0.1/30")},
		Clusters: []*state.Cluster{
			{Name: "rome", NodeCIDR: netip.MustParsePrefix("172.30.1.0/24")},
			{Name: "milan", NodeCIDR: netip.MustParsePrefix("172.30.2.0/24")},
		},
		Cuts: []state.Cut{state.NewCut("rome", "milan")},
	}
	want := `chain forward {
type filter hook forward priority filter; policy drop;
ip saddr 172.30.2.0/24 ip daddr 172.30.1.0/24 drop
ip saddr 172.30.1.0/24 ip daddr 172.30.2.0/24 drop
ip saddr { 172.30.0.0/30, 172.30.1.0/24, 172.30.2.0/24 } ip daddr { 172.30.0.0/30, 172.30.1.0/24, 172.30.2.0/24 } accept
}
`
	if diff := cmp.Diff(want, routerRules(i)); diff != "" {
		t.Error(diff)
	}
}
