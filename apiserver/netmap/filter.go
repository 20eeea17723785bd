// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"net/netip"
	"slices"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// unusable are the CIDRs that no pod has an address in, in addition to those that netip.Addr.IsGlobalUnicast excludes.
var unusable = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4")}

// MetadataServices are the addresses of metadata services of clouds that are not link-local.
var MetadataServices = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// AddressFilter permits or refuses addresses that a peer reports, to which the local cluster then sends traffic:
// endpoints of Services that a consumer reflects, and pods of a provider. Without the filter, a peer could direct this
// traffic to the local cluster's own pods, Services and nodes. The zero value permits no address.
type AddressFilter struct {
	// Refused are CIDRs whose addresses are refused.
	Refused []netip.Prefix
	// Complete is true if Refused protects the Services of the local cluster: it contains their CIDRs, or CIDRs that an
	// administrator configured. If it is false, all addresses outside of Tunnel are refused.
	Complete bool
	// Tunnel are the CIDRs by which the local cluster reaches the peer through their tunnel. If it is not empty, all
	// addresses outside of these CIDRs are refused.
	Tunnel []netip.Prefix
}

// NewAddressFilter returns a filter that refuses the CIDRs in refused, which an administrator configured, and the
// addresses of pods, Services, nodes and API servers in info, the ClusterInfo of the local cluster. info may be nil.
// CIDRs of pods with source v1alpha1.SourcePod are not refused, because they may contain addresses of other clusters:
// see PodsKnown.
func NewAddressFilter(info *v1alpha1.ClusterInfo, refused []netip.Prefix) AddressFilter {
	filter := AddressFilter{Refused: slices.Clone(refused), Complete: len(refused) > 0}
	if info == nil {
		return filter
	}
	for _, r := range info.Status.Ranges {
		prefix, err := netip.ParsePrefix(r.CIDR)
		switch {
		case err != nil, r.Use == v1alpha1.RangeExternal, r.Use == v1alpha1.RangeReserved && r.Source == v1alpha1.SourceValue,
			r.Use == v1alpha1.RangeOfPods && r.Source == v1alpha1.SourcePod:
			continue
		case r.Use == v1alpha1.RangeOfServices:
			filter.Complete = true
		}
		filter.Refused = append(filter.Refused, prefix)
	}
	return filter
}

// Permits reports whether the filter permits an address that a peer reports. It refuses text that is not an IP address,
// loopback, link-local, multicast and other addresses that no pod has, and, outside of Tunnel, MetadataServices.
func (f *AddressFilter) Permits(text string) bool {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" || address.Is4In6() || !address.IsGlobalUnicast() {
		return false
	}
	within := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	switch {
	case slices.ContainsFunc(unusable, within), slices.ContainsFunc(f.Refused, within):
		return false
	case len(f.Tunnel) > 0:
		return slices.ContainsFunc(f.Tunnel, within)
	}
	return f.Complete && !slices.ContainsFunc(MetadataServices, within)
}

// PodsKnown reports whether an AddressFilter of the same arguments refuses the addresses of all local pods. It returns
// false if info has no CIDR of pods, or has one with source v1alpha1.SourcePod that is not within a CIDR in refused:
// such CIDRs contain the pods that run, but not necessarily those that start later. info may be nil.
func PodsKnown(info *v1alpha1.ClusterInfo, refused []netip.Prefix) bool {
	if info == nil {
		return false
	}
	known := false
	for _, r := range info.Status.Ranges {
		prefix, err := netip.ParsePrefix(r.CIDR)
		if err != nil || r.Use != v1alpha1.RangeOfPods {
			continue
		}
		if r.Source == v1alpha1.SourcePod && !Covers(refused, prefix) {
			return false
		}
		known = true
	}
	return known
}
