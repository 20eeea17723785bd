// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"liqo.io/federation/apiserver/netmap"
)

func TestInvalidPeerIsRefusedWithoutAffectingOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*Peer)
		want string
	}{
		{"no CIDRs", func(p *Peer) { p.Remote = nil }, "no CIDRs"},
		{"a malformed CIDR", func(p *Peer) { p.Remote[0] = netip.Prefix{} }, "malformed"},
		{"bits beyond the length", func(p *Peer) { p.Remote[0] = prefix("10.3.0.1/16") }, "use 10.3.0.0/16"},
		{"the default route", func(p *Peer) { p.Remote[0] = prefix("0.0.0.0/0") }, "default route"},
		{"half of everything", func(p *Peer) { p.Remote[0] = prefix("0.0.0.0/1") }, "no cluster may announce"},
		{"loopback", func(p *Peer) { p.Remote[0] = prefix("127.0.1.0/24") }, "no cluster may announce"},
		{"link-local", func(p *Peer) { p.Remote[0] = prefix("169.254.0.0/17") }, "no cluster may announce"},
		{"multicast", func(p *Peer) { p.Remote[0] = prefix("239.0.0.0/8") }, "no cluster may announce"},
		{"IPv6 link-local", func(p *Peer) { p.Remote[0] = prefix("fe80::/64") }, "no cluster may announce"},
		{"IPv4 in IPv6", func(p *Peer) { p.Remote[0] = prefix("::ffff:10.0.0.0/104") }, "no cluster may announce"},
		{"local pods", func(p *Peer) { p.Remote[0] = prefix("10.0.128.0/17") }, "10.0.0.0/16 of the local cluster"},
		{"local Services", func(p *Peer) { p.Remote[0] = prefix("10.100.0.0/16") }, "10.96.0.0/12 of the local cluster"},
		{"a reserved range", func(p *Peer) { p.Remote[0] = prefix("172.31.7.0/24") }, "172.31.0.0/16 of the local cluster"},
		{"a local node", func(p *Peer) { p.Remote[0] = prefix("192.168.0.0/16") }, "local node rome-"},
		{"part of another peer's CIDR", func(p *Peer) { p.Remote[0] = prefix("10.1.128.0/17") }, "cluster milan"},
		{"a range that contains another peer's CIDR", func(p *Peer) { p.Remote[0] = prefix("10.0.0.0/8") }, "overlaps"},
		{
			"overlapping itself", func(p *Peer) { p.Remote = append(p.Remote, prefix("10.3.3.0/24")) },
			"overlaps its 10.3.0.0/16",
		},
		{"no key", func(p *Peer) { p.PublicKey = PublicKey{} }, "no public key"},
		{"another's key", func(p *Peer) { p.PublicKey = PublicKey{2} }, "milan has its public key"},
		{"another's id", func(p *Peer) { p.ClusterID = "milan" }, "its cluster ID"},
		{"no id", func(p *Peer) { p.ClusterID = "" }, "no cluster ID"},
		{
			"an endpoint on loopback", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("127.0.0.1:51820") },
			"is not a valid destination",
		},
		{
			"an endpoint without port", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("172.16.0.3:0") },
			"is not a valid destination",
		},
		{
			"an endpoint behind the tunnel", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.3.0.3:51820") },
			"behind the tunnel",
		},
		{
			"an endpoint among local pods", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.0.7.7:53") },
			"10.0.7.7:53 is in the local range 10.0.0.0/16",
		},
		{
			"an endpoint among local pods, by IPv6", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("[fd10::7]:53") },
			"is in the local range fd10::/48",
		},
		{
			"an endpoint among local Services", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.96.0.10:53") },
			"10.96.0.10:53 is in the local range 10.96.0.0/12",
		},
		{
			"an endpoint among external addresses", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.70.0.1:53") },
			"is in the local range 10.70.0.0/16",
		},
		{
			"an endpoint that is the gateway's own node",
			func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("192.168.1.1:10250") },
			"192.168.1.1:10250 is local node rome-1",
		},
		{
			"an endpoint that is a local node", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("192.168.1.2:51820") },
			"is local node rome-2",
		},
		{
			"an endpoint that is a local node, by IPv6",
			func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("[fd00:1::2]:51820") }, "is local node rome-2",
		},
		{
			"an endpoint that is a local node, from outside",
			func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("198.51.100.2:51820") }, "is local node rome-2",
		},
		{
			"an external address of a local node", func(p *Peer) { p.Remote[0] = prefix("198.51.100.0/24") },
			"198.51.100.2/32 of local node rome-2",
		},
		{"a tiny MTU", func(p *Peer) { p.MTU = 576 }, "MTU 576"},
		{"lengths that differ", func(p *Peer) { p.Local[0].Mapped = prefix("10.4.0.0/17") }, "same family and length"},
		{"families that differ", func(p *Peer) { p.Local[0].Mapped = prefix("fd00::/16") }, "same family and length"},
		{"two local CIDRs with overlapping remapped CIDRs", func(p *Peer) {
			p.Local = append(p.Local, netmap.CIDRMapping{CIDR: prefix("10.9.0.0/16"), Mapped: prefix("10.4.0.0/16")})
		}, "overlaps"},
		{"no local CIDR in its family", func(p *Peer) { p.Local = nil }, "no local CIDR"},
		{
			"a mapping to loopback",
			func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("127.0.0.1")}} },
			"in a range that no cluster may announce",
		},
		{
			"a mapping to the metadata service",
			func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("169.254.169.254")}} },
			"in a range that no cluster may announce",
		},
		{
			"a mapping across families",
			func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("fd00::9")}} }, "crosses",
		},
		{"a mapping twice", func(p *Peer) {
			p.Mappings = []Mapping{
				{Seen: addr("10.80.0.9"), Target: addr("10.0.1.1")}, {Seen: addr("10.80.0.9"), Target: addr("10.0.1.2")},
			}
		}, "mapped twice"},
		{"an unknown protocol", func(p *Peer) {
			p.Mappings = []Mapping{{addr("10.80.0.9"), addr("10.0.1.1"), []Port{{"tcp -j ACCEPT", 80}}}}
		}, "invalid port"},
		{"port 0", func(p *Peer) {
			p.Mappings = []Mapping{{addr("10.80.0.9"), addr("10.0.1.1"), []Port{{"tcp", 0}}}}
		}, "invalid port"},
		{"too many ports", func(p *Peer) {
			p.Mappings = []Mapping{{addr("10.80.0.9"), addr("10.0.1.1"), make([]Port, maxPorts+1)}}
		}, "more than 32 ports"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := rome("rome-1")
			turin := Peer{
				ClusterID: "turin", PublicKey: PublicKey{3},
				Local:  []netmap.CIDRMapping{{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.4.0.0/16")}},
				Remote: []netip.Prefix{prefix("10.3.0.0/16")},
			}
			tc.do(&turin)
			in.Peers = append(in.Peers, turin)
			_, inside, refused, err := Gateway(in)
			if err != nil {
				t.Fatal(err)
			}
			if len(refused) != 1 || refused[0].ClusterID != turin.ClusterID || !strings.Contains(refused[0].Reason, tc.want) {
				t.Errorf("refused: %+v, want %q", refused, tc.want)
			}
			if len(inside.Tunnel.Peers) != 1 {
				t.Errorf("%d peers are served", len(inside.Tunnel.Peers))
			}
		})
	}
}

// Endpoints in reserved networks are valid unless they are local nodes, as the nodes of the peer may be in the
// same network. Endpoints learned from received packets may be local, for example after NAT by a NodePort.
func TestEndpointsOutsideTheClusterAreAccepted(t *testing.T) {
	for _, test := range []struct {
		name, at string
		learned  bool
	}{
		{"anywhere", "172.16.0.2:51820", false},
		{"in the network of the local nodes", "192.168.1.3:51820", false},
		{"learned, a local node", "192.168.1.2:40000", true},
		{"learned, a local pod", "10.0.2.7:40000", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := rome("rome-1")
			in.Reserved = []netip.Prefix{prefix("192.168.0.0/16")}
			in.Peers[0].Endpoint, in.Peers[0].EndpointLearned = netip.MustParseAddrPort(test.at), test.learned
			_, inside, refused, err := Gateway(in)
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			if got := inside.Tunnel.Peers[0].Endpoint.String(); got != test.at {
				t.Errorf("endpoint %s", got)
			}
		})
	}
}

func TestOnlyCommonAddressFamiliesAreServed(t *testing.T) {
	in := rome("rome-1")
	in.Peers = []Peer{{
		ClusterID: "turin", PublicKey: PublicKey{3},
		Local:  []netmap.CIDRMapping{{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.4.0.0/16")}},
		Remote: []netip.Prefix{prefix("10.3.0.0/16"), prefix("fd00:3::/56")},
	}}
	_, inside, refused, err := Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatalf("refused: %+v, %v", refused, err)
	}
	want := []netip.Prefix{prefix("10.3.0.0/16")}
	if got := inside.Tunnel.Peers[0].AllowedIPs; !slices.Equal(got, want) {
		t.Errorf("allowed IPs %v, want %v", got, want)
	}
	routes, _, err := RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes.Routes {
		if route.Dst.Addr().Is6() && route.Table == PeersTable {
			t.Errorf("a route to %s", route.Dst)
		}
	}
}

func TestInvalidClusterInputIsAnError(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*Input)
		want string
	}{
		{"an unknown node", func(in *Input) { in.Node = "paris-1" }, `"paris-1", which is this node or the node of a gateway, is not`},
		{"an active node without a gateway", func(in *Input) { in.Active = "rome-2" }, "not among the gateways"},
		{"no pods", func(in *Input) { in.PodCIDRs = nil }, "no pod CIDRs"},
		{"a tiny MTU", func(in *Input) { in.MTU = 500 }, "500"},
		{"a node without an address", func(in *Input) { in.Nodes[1].Addresses = nil }, "rome-2 has no address"},
		{"a node without IPv4", func(in *Input) {
			for i := range in.Nodes {
				in.Nodes[i].Addresses = in.Nodes[i].Addresses[1:]
			}
		}, "has no IPv4 address"},
		{"an overlay over two families", func(in *Input) {
			a := in.Nodes[1].Addresses
			a[0], a[1] = a[1], a[0]
		}, "which the overlay cannot span"},
		{"two nodes with the same name", func(in *Input) { in.Nodes[1].Name = "rome-1" }, "two nodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := rome("rome-1")
			tc.do(&in)
			if _, _, err := RouteAgent(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("RouteAgent: %v, want %q", err, tc.want)
			}
			if _, _, _, err := Gateway(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Gateway: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestGatewayRequiresAKeyAndAPort(t *testing.T) {
	in := rome("rome-1")
	in.PrivateKey = PrivateKey{}
	if _, _, _, err := Gateway(in); err == nil || !strings.Contains(err.Error(), "no private key") {
		t.Errorf("without a key: %v", err)
	}
	in = rome("rome-1")
	in.Port = 0
	if _, _, _, err := Gateway(in); err == nil || !strings.Contains(err.Error(), "port 0") {
		t.Errorf("without a port: %v", err)
	}
}
