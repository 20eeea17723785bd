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
		{"a range derived from running pods, which may contain pods of peers", flat, "10.2.0.1", true},
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

func TestRangesOfRunningPodsAreNotAllPods(t *testing.T) {
	pods := func(source v1alpha1.ClusterRangeSource, cidr string) v1alpha1.ClusterRange {
		return v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: cidr, Source: source}
	}
	services := v1alpha1.ClusterRange{Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12",
		Source: v1alpha1.SourceServiceCIDR}
	for _, test := range []struct {
		name    string
		ranges  []v1alpha1.ClusterRange
		refused string
		want    bool
	}{
		{"no range of pods", []v1alpha1.ClusterRange{services}, "10.2.0.0/16", false},
		{"configured", []v1alpha1.ClusterRange{pods(v1alpha1.SourceNode, "10.2.0.0/24"), services}, "", true},
		{"of running pods", []v1alpha1.ClusterRange{pods(v1alpha1.SourcePod, "10.2.0.0/24"), services}, "", false},
		{"of running pods, of one family", []v1alpha1.ClusterRange{
			pods(v1alpha1.SourceNode, "10.2.0.0/24"), pods(v1alpha1.SourcePod, "fd00:2::/64"),
		}, "", false},
		{"of running pods within a refused CIDR", []v1alpha1.ClusterRange{
			pods(v1alpha1.SourcePod, "10.2.0.0/24"), pods(v1alpha1.SourcePod, "10.2.7.0/24"),
		}, "10.2.0.0/16", true},
		{"of running pods, partly within a refused CIDR", []v1alpha1.ClusterRange{
			pods(v1alpha1.SourcePod, "10.2.0.0/24"), pods(v1alpha1.SourcePod, "10.3.0.0/24"),
		}, "10.2.0.0/16", false},
		{"of running pods, with a smaller refused CIDR", []v1alpha1.ClusterRange{
			pods(v1alpha1.SourcePod, "10.2.0.0/24"),
		}, "10.2.0.0/25", false},
		{"malformed", []v1alpha1.ClusterRange{pods(v1alpha1.SourceNode, "malformed")}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var refused []netip.Prefix
			if test.refused != "" {
				refused = append(refused, netip.MustParsePrefix(test.refused))
			}
			info := &v1alpha1.ClusterInfo{Status: v1alpha1.ClusterInfoStatus{Ranges: test.ranges}}
			if got := PodsKnown(info, refused); got != test.want {
				t.Errorf("PodsKnown returned %t, want %t", got, test.want)
			}
		})
	}
	if PodsKnown(nil, nil) {
		t.Error("pods are known without a ClusterInfo")
	}
}
