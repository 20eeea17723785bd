// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"net/netip"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Ranges are the CIDRs in use in the local cluster, by their use.
type Ranges struct {
	// Pods, Services and Nodes are the CIDRs with the addresses of pods, Services and nodes.
	Pods, Services, Nodes []netip.Prefix
	// External are the external CIDRs, which expose non-pod endpoints to peers.
	External []netip.Prefix
	// Reserved are other CIDRs that must not be used for a peer.
	Reserved []netip.Prefix
}

// ParseCIDRs returns the parsed form of CIDRs, without host bits. It omits texts that are no CIDRs: flags and objects
// are validated before they are used.
func ParseCIDRs(texts []string) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			cidrs = append(cidrs, cidr.Masked())
		}
	}
	return cidrs
}

// RangesOf returns the ranges in the status of a ClusterInfo. It returns no ranges for nil, and omits
// malformed ranges.
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

// APIServers returns the addresses of API servers in the status of a ClusterInfo; none for nil. It omits malformed
// ranges.
func APIServers(info *v1alpha1.ClusterInfo) []netip.Prefix {
	if info == nil {
		return nil
	}
	var found []netip.Prefix
	for _, r := range info.Status.Ranges {
		if prefix, err := netip.ParsePrefix(r.CIDR); err == nil && r.Source == v1alpha1.SourceAPIServer {
			found = append(found, prefix)
		}
	}
	return found
}
