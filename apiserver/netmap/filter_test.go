// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPeersHaveNoAddressesOfTheLocalCluster(t *testing.T) {
	info := &v1alpha1.ClusterInfo{Status: v1alpha1.ClusterInfoStatus{Ranges: []v1alpha1.ClusterRange{
		{Use: v1alpha1.RangeOfPods, CIDR: "10.1.0.0/16", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeOfPods, CIDR: "fd00:1::/48", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/24", Source: v1alpha1.SourcePod},
		{Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12", Source: v1alpha1.SourceServiceCIDR},
		{Use: v1alpha1.RangeOfNodes, CIDR: "192.0.2.1/32", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeReserved, CIDR: "192.0.2.9/32", Source: v1alpha1.SourceAPIServer},
		{Use: v1alpha1.RangeReserved, CIDR: "10.4.0.0/16", Source: v1alpha1.SourceValue},
		{Use: v1alpha1.RangeExternal, CIDR: "10.5.0.0/16", Source: v1alpha1.SourceValue},
		{Use: v1alpha1.RangeOfNodes, CIDR: "malformed", Source: v1alpha1.SourceNode},
	}}}
	flat := NewAddressFilter(info, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")})
	tunnel := AddressFilter{Tunnel: []netip.Prefix{
		netip.MustParsePrefix("10.7.0.0/16"), netip.MustParsePrefix("fd00:7::/48"), netip.MustParsePrefix("100.100.0.0/16"),
		netip.MustParsePrefix("169.254.0.0/16"),
	}}
	both := NewAddressFilter(info, nil)
	both.Tunnel = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, test := range []struct {
		name    string
		filter  AddressFilter
		address string
		want    bool
	}{
		{"a pod of a flat network", flat, "10.3.0.1", true},
		{"a pod of a flat network, IPv6", flat, "fd00:3::1", true},
		{"a local pod", flat, "10.1.2.3", false},
		{"a local pod, IPv6", flat, "fd00:1::1", false},
		{"a range derived from running pods", flat, "10.2.0.1", true},
		{"a local Service", flat, "10.96.0.1", false},
		{"a local node", flat, "192.0.2.1", false},
		{"a local API server", flat, "192.0.2.9", false},
		{"a range that is reserved by a value", flat, "10.4.0.1", true},
		{"an external CIDR", flat, "10.5.0.1", true},
		{"a configured CIDR", flat, "10.9.0.1", false},
		{"loopback", flat, "127.0.0.1", false},
		{"link-local", flat, "169.254.169.254", false},
		{"link-local with a zone", flat, "fe80::1%eth0", false},
		{"multicast", flat, "224.0.0.1", false},
		{"broadcast", flat, "255.255.255.255", false},
		{"reserved", flat, "240.0.0.1", false},
		{"this network", flat, "0.1.2.3", false},
		{"unspecified", flat, "::", false},
		{"an IPv4-mapped address", flat, "::ffff:10.3.0.1", false},
		{"an IPv6 metadata service", flat, "fd00:ec2::254", false},
		{"an IPv4 metadata service", flat, "100.100.100.200", false},
		{"no address", flat, "milan", false},
		{"a pod behind a tunnel", tunnel, "10.7.0.1", true},
		{"a pod behind a tunnel, IPv6", tunnel, "fd00:7::1", true},
		{"an address outside of the tunnel", tunnel, "10.8.0.1", false},
		{"a metadata service of the local cluster is not behind a tunnel", tunnel, "100.100.100.200", true},
		{"link-local behind a tunnel", tunnel, "169.254.169.254", false},
		{"a local pod in a range of the tunnel", both, "10.1.2.3", false},
		{"a remote pod in a range of the tunnel", both, "10.3.0.1", true},
		{"unknown Services", NewAddressFilter(nil, nil), "10.3.0.1", false},
		{"unknown Services and configured CIDRs", NewAddressFilter(nil, flat.Refused[:1]), "10.3.0.1", true},
		{"the zero value", AddressFilter{}, "10.3.0.1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.filter.Permits(test.address)); diff != "" {
				t.Errorf("%s is permitted (-want +got):\n%s", test.address, diff)
			}
		})
	}
}
