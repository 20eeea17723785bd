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

func TestABadPeerIsRefusedByNameAndTheOthersAreServed(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*Peer)
		want string
	}{
		{"no CIDRs", func(p *Peer) { p.Remote = nil }, "no CIDRs"},
		{"a malformed CIDR", func(p *Peer) { p.Remote[0] = netip.Prefix{} }, "malformed"},
		{"bits beyond the length", func(p *Peer) { p.Remote[0] = prefix("10.3.0.1/16") }, "10.3.0.0/16 is meant"},
		{"the default route", func(p *Peer) { p.Remote[0] = prefix("0.0.0.0/0") }, "default route"},
		{"half of everything", func(p *Peer) { p.Remote[0] = prefix("0.0.0.0/1") }, "nobody's"},
		{"loopback", func(p *Peer) { p.Remote[0] = prefix("127.0.1.0/24") }, "nobody's"},
		{"link-local", func(p *Peer) { p.Remote[0] = prefix("169.254.0.0/17") }, "nobody's"},
		{"multicast", func(p *Peer) { p.Remote[0] = prefix("239.0.0.0/8") }, "nobody's"},
		{"IPv6 link-local", func(p *Peer) { p.Remote[0] = prefix("fe80::/64") }, "nobody's"},
		{"IPv4 in IPv6", func(p *Peer) { p.Remote[0] = prefix("::ffff:10.0.0.0/104") }, "nobody's"},
		{"our own pods", func(p *Peer) { p.Remote[0] = prefix("10.0.128.0/17") }, "10.0.0.0/16 of ourselves"},
		{"our own Services", func(p *Peer) { p.Remote[0] = prefix("10.100.0.0/16") }, "10.96.0.0/12 of ourselves"},
		{"what we have reserved", func(p *Peer) { p.Remote[0] = prefix("172.31.7.0/24") }, "172.31.0.0/16 of ourselves"},
		{"a node of ours", func(p *Peer) { p.Remote[0] = prefix("192.168.0.0/16") }, "our node rome-"},
		{"what another peer has", func(p *Peer) { p.Remote[0] = prefix("10.1.128.0/17") }, "cluster milan"},
		{"what holds another peer's", func(p *Peer) { p.Remote[0] = prefix("10.0.0.0/8") }, "overlaps"},
		{"overlapping itself", func(p *Peer) { p.Remote = append(p.Remote, prefix("10.3.3.0/24")) }, "overlaps its 10.3.0.0/16"},
		{"no key", func(p *Peer) { p.PublicKey = PublicKey{} }, "no public key"},
		{"another's key", func(p *Peer) { p.PublicKey = PublicKey{2} }, "milan has its public key"},
		{"another's id", func(p *Peer) { p.ClusterID = "milan" }, "its cluster id"},
		{"no id", func(p *Peer) { p.ClusterID = "" }, "no cluster id"},
		{"an endpoint on loopback", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("127.0.0.1:51820") }, "cannot be called"},
		{"an endpoint without port", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("172.16.0.3:0") }, "cannot be called"},
		{"an endpoint behind the tunnel", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.3.0.3:51820") }, "behind the tunnel"},
		{"an endpoint among our pods", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.0.7.7:53") }, "10.0.7.7:53 lies within our own 10.0.0.0/16"},
		{"an endpoint among our pods, by IPv6", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("[fd10::7]:53") }, "lies within our own fd10::/48"},
		{"an endpoint among our Services", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.96.0.10:53") }, "10.96.0.10:53 lies within our own 10.96.0.0/12"},
		{"an endpoint among addresses that stand for others", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("10.70.0.1:53") }, "lies within our own 10.70.0.0/16"},
		{"an endpoint that is the gateway's own node", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("192.168.1.1:10250") }, "192.168.1.1:10250 is our node rome-1"},
		{"an endpoint that is a node of ours", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("192.168.1.2:51820") }, "is our node rome-2"},
		{"an endpoint that is a node of ours, by IPv6", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("[fd00:1::2]:51820") }, "is our node rome-2"},
		{"an endpoint that is a node of ours, from outside", func(p *Peer) { p.Endpoint = netip.MustParseAddrPort("198.51.100.2:51820") }, "is our node rome-2"},
		{"where a node of ours is found from outside", func(p *Peer) { p.Remote[0] = prefix("198.51.100.0/24") }, "198.51.100.2/32 of our node rome-2"},
		{"a tiny MTU", func(p *Peer) { p.MTU = 576 }, "MTU 576"},
		{"lengths that differ", func(p *Peer) { p.Local[0].Mapped = prefix("10.4.0.0/17") }, "another length"},
		{"families that differ", func(p *Peer) { p.Local[0].Mapped = prefix("fd00::/16") }, "another length"},
		{"two of ours seen as one", func(p *Peer) {
			p.Local = append(p.Local, netmap.CIDRMapping{CIDR: prefix("10.9.0.0/16"), Mapped: prefix("10.4.0.0/16")})
		}, "overlaps"},
		{"nothing of ours in its family", func(p *Peer) { p.Local = nil }, "nothing of ours"},
		{"a mapping to loopback", func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("127.0.0.1")}} }, "not between addresses of hosts"},
		{"a mapping to the metadata service", func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("169.254.169.254")}} }, "not between addresses of hosts"},
		{"a mapping across families", func(p *Peer) { p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("fd00::9")}} }, "crosses"},
		{"a mapping twice", func(p *Peer) {
			p.Mappings = []Mapping{{Seen: addr("10.80.0.9"), Target: addr("10.0.1.1")}, {Seen: addr("10.80.0.9"), Target: addr("10.0.1.2")}}
		}, "mapped twice"},
		{"a port of no protocol", func(p *Peer) {
			p.Mappings = []Mapping{{addr("10.80.0.9"), addr("10.0.1.1"), []Port{{"tcp -j ACCEPT", 80}}}}
		}, "which is none"},
		{"a port 0", func(p *Peer) {
			p.Mappings = []Mapping{{addr("10.80.0.9"), addr("10.0.1.1"), []Port{{"tcp", 0}}}}
		}, "which is none"},
		{"more ports than a mapping is bounded to", func(p *Peer) {
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
				t.Errorf("refused: %+v, want something of %q", refused, tc.want)
			}
			if len(inside.Tunnel.Peers) != 1 {
				t.Errorf("%d peers are served", len(inside.Tunnel.Peers))
			}
		})
	}
}

// Of a network that is reserved, only what is ours is refused: the other cluster's
// nodes may be on it, too. And where a peer was heard, something of ours may have
// led it here, as a node does by a NodePort.
func TestAPeerIsCalledWhereItMayBe(t *testing.T) {
	for _, test := range []struct {
		name, at string
		heard    bool
	}{
		{"anywhere", "172.16.0.2:51820", false},
		{"on the network of our nodes", "192.168.1.3:51820", false},
		{"heard from a node of ours", "192.168.1.2:40000", true},
		{"heard from a pod of ours", "10.0.2.7:40000", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := rome("rome-1")
			in.Reserved = []netip.Prefix{prefix("192.168.0.0/16")}
			in.Peers[0].Endpoint, in.Peers[0].EndpointLearned = netip.MustParseAddrPort(test.at), test.heard
			_, inside, refused, err := Gateway(in)
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			if got := inside.Tunnel.Peers[0].Endpoint.String(); got != test.at {
				t.Errorf("it is called at %s", got)
			}
		})
	}
}

func TestOfAPeerWithMoreFamiliesThanWeHaveTheCommonOnesAreServed(t *testing.T) {
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
		t.Errorf("gone through the tunnel may %v, want %v", got, want)
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

func TestValuesOfTheClusterThatMakeNoSenseAreAnError(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*Input)
		want string
	}{
		{"a node that is none", func(in *Input) { in.Node = "paris-1" }, `"paris-1" is not among the nodes`},
		{"an active one that is no gateway", func(in *Input) { in.Active = "rome-2" }, "not among the gateways"},
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
		}, "no overlay can span both"},
		{"two nodes of one name", func(in *Input) { in.Nodes[1].Name = "rome-1" }, "two nodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := rome("rome-1")
			tc.do(&in)
			if _, _, err := RouteAgent(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("RouteAgent: %v, want something of %q", err, tc.want)
			}
			if _, _, _, err := Gateway(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Gateway: %v, want something of %q", err, tc.want)
			}
		})
	}
}

func TestAGatewayNeedsAKeyAndAPort(t *testing.T) {
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
