// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"net/netip"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Ranges are the CIDRs that the local cluster uses itself, by their use.
type Ranges struct {
	// Pods, Services and Nodes are the CIDRs of these objects.
	Pods, Services, Nodes []netip.Prefix
	// External expose non-pod endpoints to peers.
	External []netip.Prefix
	// Reserved are other CIDRs that no peer may use.
	Reserved []netip.Prefix
}

// RangesOf returns the ranges of a ClusterInfo; none if it is nil. It omits malformed ranges.
func RangesOf(info *v1alpha1.ClusterInfo) Ranges {
	var ranges Ranges
	if info == nil {
		return ranges
	}
	lists := map[v1alpha1.ClusterRangeUse]*[]netip.Prefix{
		v1alpha1.RangeOfPods: &ranges.Pods, v1alpha1.RangeOfServices: &ranges.Services, v1alpha1.RangeOfNodes: &ranges.Nodes,
		v1alpha1.RangeExternal: &ranges.External, v1alpha1.RangeReserved: &ranges.Reserved,
	}
	for _, r := range info.Status.Ranges {
		list, known := lists[r.Use]
		if prefix, err := netip.ParsePrefix(r.CIDR); err == nil && known {
			*list = append(*list, prefix)
		}
	}
	return ranges
}
