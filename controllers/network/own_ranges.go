// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// ReasonTooManyRanges is that of an event of an AddressPool which cannot name
// all that this cluster has.
const ReasonTooManyRanges = "TooManyRanges"

// ownRanges returns the ranges of the local cluster, none until ClusterInfo local names them.
func ownRanges(infos listers.ClusterInfoLister) netmap.Ranges {
	// Reading a cache fails only if the object is not in it.
	info, _ := infos.Get(v1alpha1.ClusterInfoName)
	return netmap.RangesOf(info)
}

// reserved returns the ranges that no peer may have: external CIDRs, and then the others of
// the local cluster that none of these contains, the larger ones first. left is how many more
// there are than a pool has room for.
func reserved(own netmap.Ranges, external []string) (cidrs []string, left int) {
	all := slices.Concat(own.Pods, own.Services, own.Nodes, own.External, own.Reserved)
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	var kept []netip.Prefix
	for _, text := range external {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			kept = append(kept, prefix)
		}
	}
	for _, cidr := range all {
		if !netmap.Covers(kept, cidr) {
			kept = append(kept, cidr)
		}
	}
	return texts(kept[:min(len(kept), validation.MaxReservedCIDRs)]), max(len(kept)-validation.MaxReservedCIDRs, 0)
}

// texts returns CIDRs as objects name them.
func texts(cidrs []netip.Prefix) []string {
	var all []string
	for _, cidr := range cidrs {
		all = append(all, cidr.String())
	}
	return all
}

// sameInfo reports whether a ClusterInfo names the ranges that it named before.
func sameInfo(a, b *v1alpha1.ClusterInfo) bool { return slices.Equal(a.Status.Ranges, b.Status.Ranges) }
