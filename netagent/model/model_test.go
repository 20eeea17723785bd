// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"liqo.io/federation/apiserver/netmap"
)

// values compares addresses by value instead of by field.
var values = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

// rome returns the input for a node of a cluster with two nodes, whose pod CIDRs are also the pod CIDRs of its
// peer milan.
func rome(node string) Input {
	return Input{
		Node: node,
		Nodes: []Node{
			{
				Name: "rome-1", Addresses: []netip.Addr{addr("192.168.1.1"), addr("fd00:1::1")},
				PodCIDRs: []netip.Prefix{prefix("10.0.1.0/24"), prefix("fd10:0:1::/64")},
			},
			{
				Name: "rome-2", Addresses: []netip.Addr{addr("192.168.1.2"), addr("fd00:1::2")},
				External: []netip.Addr{addr("198.51.100.2")},
				PodCIDRs: []netip.Prefix{prefix("10.0.2.0/24"), prefix("fd10:0:2::/64")},
			},
		},
		Gateways: []string{"rome-1"}, Active: "rome-1",
		PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/48")},
		Virtual:  []netip.Prefix{prefix("10.96.0.0/12"), prefix("10.70.0.0/16")},
		Reserved: []netip.Prefix{prefix("172.31.0.0/16")},
		MTU:      1500, Port: 51820, PrivateKey: PrivateKey{1},
		Peers: []Peer{milan()},
	}
}

func milan() Peer {
	return Peer{
		ClusterID: "milan", PublicKey: PublicKey{2}, Endpoint: netip.MustParseAddrPort("172.16.0.2:51820"), MTU: 1380,
		Local: []netmap.CIDRMapping{
			{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.2.0.0/16")},
			{CIDR: prefix("fd10::/48"), Mapped: prefix("fd12::/48")},
		},
		Remote:   []netip.Prefix{prefix("10.1.0.0/16"), prefix("fd11::/48")},
		Mappings: []Mapping{{Seen: addr("10.80.0.1"), Target: addr("192.168.1.2")}},
	}
}

func TestNodeReachesPeersThroughTheActiveGateway(t *testing.T) {
	s, refused, err := RouteAgent(rome("rome-2"))
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	mac := nodeMAC("rome-1")
	want := State{
		Scope: Scope{Links: []string{"liqo.vxlan"}, Routing: true, Families: []Family{IPv4, IPv6}},
		Links: []Link{
			{
				Name: "liqo.vxlan", Kind: VXLAN, MTU: 1450, MAC: nodeMAC("rome-2"), VNI: OverlayVNI, Port: OverlayPort,
				Local: addr("192.168.1.2"),
			},
		},
		Neighbors: []Neighbor{
			{Link: "liqo.vxlan", Addr: addr("192.168.1.1"), MAC: mac},
			{Link: "liqo.vxlan", Addr: linkLocal(mac), MAC: mac},
		},
		FDBEntries: []FDBEntry{{Link: "liqo.vxlan", MAC: mac, Node: addr("192.168.1.1")}},
		Routes: []Route{
			{
				Table: PeersTable, Dst: prefix("10.1.0.0/16"), Via: addr("192.168.1.1"), Link: "liqo.vxlan",
				Src: addr("192.168.1.2"), MTU: 1380,
			},
			{
				Table: PeersTable, Dst: prefix("fd11::/48"), Via: linkLocal(mac), Link: "liqo.vxlan", Src: addr("fd00:1::2"),
				MTU: 1380,
			},
		},
		Rules: []Rule{
			{Family: IPv4, Priority: RulePriority, Table: PeersTable},
			{Family: IPv6, Priority: RulePriority, Table: PeersTable},
		},
	}
	if diff := cmp.Diff(want, s, values, cmpopts.IgnoreFields(State{}, "Chains", "Jumps", "Sysctls")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRouteMTUIsBoundedByThePathMTU(t *testing.T) {
	for _, test := range []struct{ found, want int }{{0, 1380}, {1300, 1300}, {1400, 1380}} {
		var routes []Route
		for _, node := range []string{"rome-1", "rome-2"} {
			in := rome(node)
			in.Peers[0].PathMTU = test.found
			s, refused, err := RouteAgent(in)
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			_, inside, refused, err := Gateway(in)
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			routes = append(append(routes, s.Routes...), inside.Routes...)
		}
		count := 0
		for _, r := range routes {
			if !slices.Contains(milan().Remote, r.Dst) {
				continue
			}
			if count++; r.MTU != test.want {
				t.Errorf("path MTU %d, but the route to %s by %s has MTU %d", test.found, r.Dst, r.Link, r.MTU)
			}
		}
		if count != 8 {
			t.Errorf("%d routes lead to the peer", count)
		}
	}
	in := rome("rome-1")
	in.Peers[0].PathMTU = 100
	if _, refused, _ := RouteAgent(in); len(refused) != 1 {
		t.Errorf("path MTU of 100 bytes: %v", refused)
	}
}

func TestGatewayNodeRoutesIntoItsNamespaceAndBackToTheNodes(t *testing.T) {
	s, _, err := RouteAgent(rome("rome-1"))
	if err != nil {
		t.Fatal(err)
	}
	mac := nodeMAC("rome-2")
	want := []Route{
		{
			Table: PeersTable, Dst: prefix("10.1.0.0/16"), Via: gatewayHop, Link: "liqo.host", Src: addr("192.168.1.1"),
			MTU: 1380,
		},
		{
			Table: PeersTable, Dst: prefix("fd11::/48"), Via: linkLocal(gatewayMAC), Link: "liqo.host", Src: addr("fd00:1::1"),
			MTU: 1380,
		},
		{Table: NodesTable, Dst: prefix("10.0.2.0/24"), Via: addr("192.168.1.2"), Link: "liqo.vxlan"},
		{Table: NodesTable, Dst: prefix("192.168.1.2/32"), Via: addr("192.168.1.2"), Link: "liqo.vxlan"},
		{Table: NodesTable, Dst: prefix("fd00:1::2/128"), Via: linkLocal(mac), Link: "liqo.vxlan"},
		{Table: NodesTable, Dst: prefix("fd10:0:2::/64"), Via: linkLocal(mac), Link: "liqo.vxlan"},
	}
	if diff := cmp.Diff(want, s.Routes, values); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	rules := []Rule{
		{Family: IPv4, Priority: 479, Goto: 481, From: "lo", Port: 51820},
		{Family: IPv4, Priority: 479, Goto: 481, Source: prefix("192.168.1.1/32"), Port: 51820},
		{Family: IPv4, Priority: 480, Table: PeersTable},
		{Family: IPv4, Priority: 481, Table: NodesTable, From: "liqo.host"},
		{Family: IPv6, Priority: 479, Goto: 481, From: "lo", Port: 51820},
		{Family: IPv6, Priority: 480, Table: PeersTable},
		{Family: IPv6, Priority: 481, Table: NodesTable, From: "liqo.host"},
	}
	if diff := cmp.Diff(rules, s.Rules, values); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// dump returns chains and jumps in the format of iptables-save.
func dump(s State, f Family) string {
	var b strings.Builder
	for _, j := range s.Jumps {
		if j.Family == f {
			fmt.Fprintf(&b, "%s -A %s -j %s\n", j.Table, j.Base, j.Chain)
		}
	}
	for _, c := range s.Chains {
		for _, r := range c.Rules {
			if c.Family == f {
				fmt.Fprintf(&b, "%s -A %s %s\n", c.Table, c.Name, r)
			}
		}
	}
	return b.String()
}

func TestGatewayTranslatesInBothDirections(t *testing.T) {
	_, inside, refused, err := Gateway(rome("rome-1"))
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	id := strings.TrimPrefix(peerChain("F", "milan"), "LIQO-F-")
	want := strings.ReplaceAll(`mangle -A PREROUTING -j LIQO-PREROUTING
mangle -A FORWARD -j LIQO-FORWARD
nat -A PREROUTING -j LIQO-PREROUTING
nat -A POSTROUTING -j LIQO-POSTROUTING
mangle -A LIQO-F-ID -d 10.2.0.0/16 -j ACCEPT
mangle -A LIQO-F-ID -d 10.80.0.1/32 -j ACCEPT
mangle -A LIQO-F-ID -j DROP
nat -A LIQO-I-ID -d 10.80.0.1/32 -j DNAT --to-destination 192.168.1.2
nat -A LIQO-I-ID -d 10.2.0.0/32 -j DNAT --to-destination 169.254.58.3
nat -A LIQO-I-ID -d 10.2.0.0/16 -j NETMAP --to 10.0.0.0/16
nat -A LIQO-O-ID -s 10.0.0.0/16 -j NETMAP --to 10.2.0.0/16
nat -A LIQO-O-ID -j SNAT --to-source 10.2.0.0
mangle -A LIQO-PREROUTING -i liqo.wg -m conntrack --ctstate ESTABLISHED --ctdir REPLY -j ACCEPT
mangle -A LIQO-PREROUTING -i liqo.wg -m conntrack --ctstate RELATED -j ACCEPT
mangle -A LIQO-PREROUTING -s 10.1.0.0/16 -i liqo.wg -j LIQO-F-ID
mangle -A LIQO-PREROUTING -i liqo.wg -j DROP
mangle -A LIQO-FORWARD -i liqo.gateway -o liqo.gateway -j DROP
mangle -A LIQO-FORWARD -i liqo.gateway -p udp -m udp --dport 5874 -j LIQO-TO-GATEWAYS
mangle -A LIQO-FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
mangle -A LIQO-TO-GATEWAYS -d 10.1.0.0/32 -j DROP
nat -A LIQO-PREROUTING -s 10.1.0.0/16 -i liqo.wg -j LIQO-I-ID
nat -A LIQO-POSTROUTING -d 10.1.0.0/16 -o liqo.wg -j LIQO-O-ID
`, "ID", id)
	if diff := cmp.Diff(want, dump(inside, IPv4)); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
	peers := []TunnelPeer{{
		PublicKey: PublicKey{2}, Endpoint: netip.MustParseAddrPort("172.16.0.2:51820"), Keepalive: 25 * time.Second,
		AllowedIPs: []netip.Prefix{prefix("10.1.0.0/16"), prefix("fd11::/48")},
	}}
	if diff := cmp.Diff(peers, inside.Tunnel.Peers, values); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
	addresses := []Address{{"liqo.wg", addr("169.254.58.3")}, {"liqo.wg", addr("100::6c71:3")}}
	if diff := cmp.Diff(addresses, inside.Addresses, values); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestNodeKeepsPodAddressesAndTranslatesOthers(t *testing.T) {
	s, _, err := RouteAgent(rome("rome-2"))
	if err != nil {
		t.Fatal(err)
	}
	want := `nat -A POSTROUTING -j LIQO-POSTROUTING
mangle -A POSTROUTING -j LIQO-POSTROUTING
mangle -A PREROUTING -j LIQO-PREROUTING
filter -A INPUT -j LIQO-INPUT
filter -A FORWARD -j LIQO-FORWARD
mangle -A INPUT -j LIQO-INPUT
mangle -A FORWARD -j LIQO-FORWARD
mangle -A LIQO-OVERLAY-FROM-PEERS -s 10.1.0.0/16 -j LIQO-TO-LOCAL
mangle -A LIQO-TO-LOCAL -d 10.0.0.0/16 -j ACCEPT
mangle -A LIQO-TO-LOCAL -d 192.168.1.2/32 -j ACCEPT
nat -A LIQO-FROM-PEERS -d 10.0.0.0/16 -j ACCEPT
nat -A LIQO-FROM-PEERS -o liqo.+ -j ACCEPT
nat -A LIQO-FROM-PEERS -j SNAT --to-source 192.168.1.2
nat -A LIQO-POSTROUTING -s 10.0.0.0/16 -o liqo.+ -j NETMAP --to 10.0.0.0/16
nat -A LIQO-POSTROUTING -s 10.1.0.0/16 -j LIQO-FROM-PEERS
nat -A LIQO-POSTROUTING -o liqo.+ -j SNAT --to-source 192.168.1.2
mangle -A LIQO-POSTROUTING -o liqo.+ -j MARK --set-xmark 0x0/0x4000
mangle -A LIQO-PREROUTING -d 10.0.0.0/16 -i liqo.+ -m addrtype --dst-type LOCAL -j DROP
mangle -A LIQO-PREROUTING -i liqo.vxlan -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
mangle -A LIQO-PREROUTING -i liqo.vxlan -j LIQO-OVERLAY-FROM-PEERS
mangle -A LIQO-PREROUTING -i liqo.vxlan -j DROP
filter -A LIQO-INPUT -d 10.0.0.0/16 -i liqo.+ -j DROP
filter -A LIQO-FORWARD -i liqo.+ -j ACCEPT
filter -A LIQO-FORWARD -s 10.0.0.0/16 -o liqo.+ -j ACCEPT
filter -A LIQO-FORWARD -o liqo.+ -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
filter -A LIQO-FORWARD -o liqo.+ -j DROP
mangle -A LIQO-FROM-NODES -s 192.168.1.1/32 -j ACCEPT
mangle -A LIQO-FROM-NODES -j DROP
mangle -A LIQO-TO-NODES -d 192.168.1.1/32 -j DROP
mangle -A LIQO-INPUT -p udp -m udp --dport 5872 -j LIQO-FROM-NODES
mangle -A LIQO-FORWARD -p udp -m udp --dport 5872 -j LIQO-TO-NODES
`
	if diff := cmp.Diff(want, dump(s, IPv4)); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
}

// A gateway's node also forwards packets of the other nodes and of pods to peers.
func TestGatewayNodeAcceptsPacketsToPeersOnTheOverlay(t *testing.T) {
	s, _, err := RouteAgent(rome("rome-1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `mangle -A POSTROUTING -j LIQO-POSTROUTING
mangle -A PREROUTING -j LIQO-PREROUTING
mangle -A LIQO-OVERLAY-FROM-PEERS -s 10.1.0.0/16 -j LIQO-TO-LOCAL
mangle -A LIQO-TO-LOCAL -d 10.0.0.0/16 -j ACCEPT
mangle -A LIQO-TO-LOCAL -d 192.168.1.1/32 -j ACCEPT
mangle -A LIQO-OVERLAY-TO-PEERS -d 10.1.0.0/16 -j LIQO-FROM-LOCAL
mangle -A LIQO-FROM-LOCAL -s 10.0.0.0/16 -j ACCEPT
mangle -A LIQO-FROM-LOCAL -s 192.168.1.2/32 -j ACCEPT
mangle -A LIQO-POSTROUTING -o liqo.+ -j MARK --set-xmark 0x0/0x4000
mangle -A LIQO-PREROUTING -d 10.0.0.0/16 -i liqo.+ -m addrtype --dst-type LOCAL -j DROP
mangle -A LIQO-PREROUTING -i liqo.vxlan -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
mangle -A LIQO-PREROUTING -i liqo.vxlan -j LIQO-OVERLAY-FROM-PEERS
mangle -A LIQO-PREROUTING -i liqo.vxlan -j LIQO-OVERLAY-TO-PEERS
mangle -A LIQO-PREROUTING -i liqo.vxlan -j DROP
`
	if diff := cmp.Diff(want, mangleRules(s, IPv4, true)); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
}

// A node accepts packets on the overlay only from the nodes with which it exchanges packets.
func TestOverlayAcceptsItsPeersOnly(t *testing.T) {
	three := func(node string, do func(*Input)) Input {
		in := rome(node)
		in.Nodes = append(
			in.Nodes,
			Node{Name: "rome-3", Addresses: []netip.Addr{addr("192.168.1.3"), addr("fd00:1::3"), addr("192.168.2.3")}},
		)
		if do != nil {
			do(&in)
		}
		return in
	}
	onIPv6 := func(in *Input) {
		for i := range in.Nodes {
			a := in.Nodes[i].Addresses
			a[0], a[1] = a[1], a[0]
		}
	}
	for _, test := range []struct {
		name         string
		in           Input
		from, to     []string
		family, none Family
	}{
		{
			"a node accepts gateways only", three("rome-2", nil), []string{"192.168.1.1/32"},
			[]string{"192.168.1.1/32"}, IPv4, IPv6,
		},
		{"and standby gateways", three("rome-2", func(in *Input) { in.Gateways = []string{"rome-1", "rome-3"} }),
			[]string{"192.168.1.1/32", "192.168.1.3/32"}, []string{
				"192.168.1.1/32", "192.168.1.3/32", "192.168.2.3/32",
			}, IPv4, IPv6},
		{"a gateway accepts all nodes", three("rome-1", nil),
			[]string{"192.168.1.2/32", "192.168.1.3/32"}, []string{
				"192.168.1.2/32", "192.168.1.3/32", "192.168.2.3/32",
			}, IPv4, IPv6},
		{
			"a single node accepts none", three("rome-1", func(in *Input) { in.Nodes = in.Nodes[:1] }), nil, nil, IPv4,
			IPv6,
		},
		{
			"an IPv6 overlay", three("rome-2", onIPv6), []string{"fd00:1::1/128"},
			[]string{"fd00:1::1/128"}, IPv6, IPv4,
		},
		{
			"an IPv6 overlay for IPv4 pods", three("rome-2", func(in *Input) { onIPv6(in); in.PodCIDRs = in.PodCIDRs[:1] }),
			[]string{"fd00:1::1/128"}, []string{"fd00:1::1/128"}, IPv6, IPv4,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _, err := RouteAgent(test.in)
			if err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			want.WriteString("mangle -A INPUT -j LIQO-INPUT\nmangle -A FORWARD -j LIQO-FORWARD\n")
			for _, a := range test.from {
				fmt.Fprintf(&want, "mangle -A LIQO-FROM-NODES -s %s -j ACCEPT\n", a)
			}
			want.WriteString("mangle -A LIQO-FROM-NODES -j DROP\n")
			for _, a := range test.to {
				fmt.Fprintf(&want, "mangle -A LIQO-TO-NODES -d %s -j DROP\n", a)
			}
			want.WriteString(
				"mangle -A LIQO-INPUT -p udp -m udp --dport 5872 -j LIQO-FROM-NODES\n" +
					"mangle -A LIQO-FORWARD -p udp -m udp --dport 5872 -j LIQO-TO-NODES\n",
			)
			if diff := cmp.Diff(want.String(), mangleRules(s, test.family, false)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if rules := mangleRules(s, test.none, false); rules != "" {
				t.Errorf("rules of the other family:\n%s", rules)
			}
			if !slices.Contains(s.Scope.Families, test.family) {
				t.Errorf("chains of %s would stay: only %v are in scope", test.family, s.Scope.Families)
			}
		})
	}
}

// inside matches rules for the packets inside the overlay, and for packets to it.
var inside = regexp.MustCompile("PREROUTING|POSTROUTING|-OVERLAY-|-LOCAL ")

// mangleRules returns the rules of the mangle table in one family, for packets inside the overlay or for those of the
// overlay itself.
func mangleRules(s State, f Family, insideOverlay bool) string {
	var b strings.Builder
	for line := range strings.Lines(dump(s, f)) {
		if strings.HasPrefix(line, mangleTable) && inside.MatchString(line) == insideOverlay {
			b.WriteString(line)
		}
	}
	return b.String()
}

// The number of rules that a packet on the overlay is compared with is bounded, however many nodes there are.
func TestPacketsMeetFewRulesWithThousandsOfNodes(t *testing.T) {
	in := rome("rome-1")
	for i := range 5000 {
		in.Nodes = append(
			in.Nodes,
			Node{
				Name:      fmt.Sprintf("node-%d", i),
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 20, byte(i >> 8), byte(i)})},
			},
		)
	}
	in.PodCIDRs = in.PodCIDRs[:1]
	s, _, err := RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	chains := make(map[string][]string)
	for _, c := range s.Chains {
		if c.Table == mangleTable {
			chains[c.Name] = c.Rules
		}
	}
	var most func(chain string) int
	most = func(chain string) int {
		deepest := 0
		for _, rule := range chains[chain] {
			if _, below, found := strings.Cut(rule, " -j "+TreeChainPrefix); found {
				deepest = max(deepest, most(TreeChainPrefix+below))
			}
		}
		return len(chains[chain]) + deepest
	}
	for _, root := range []string{fromNodesChain, toNodesChain} {
		if n := most(root); n > 3*maxRules {
			t.Errorf("a packet is compared with %d rules of %s", n, root)
		}
	}
}

func TestDisjointClustersNeedNoTranslation(t *testing.T) {
	in := rome("rome-1")
	in.Peers[0].Local = []netmap.CIDRMapping{
		{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.0.0.0/16")},
		{CIDR: prefix("fd10::/48"), Mapped: prefix("fd10::/48")},
	}
	_, inside, refused, err := Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if rules := dump(inside, IPv4) + dump(inside, IPv6); strings.Contains(rules, "NETMAP") {
		t.Errorf("unexpected NETMAP:\n%s", rules)
	}
}

func TestStandbyGatewayDiffersInItsTunnelPeersOnly(t *testing.T) {
	in := rome("rome-1")
	in.Gateways = []string{"rome-1", "rome-2"}
	_, active, _, err := Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Active = "rome-2"
	_, standby, _, err := Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(standby.Tunnel.Peers) != 0 || len(active.Tunnel.Peers) != 1 {
		t.Errorf("%d standby peers, %d active peers", len(standby.Tunnel.Peers), len(active.Tunnel.Peers))
	}
	standby.Tunnel = active.Tunnel
	if diff := cmp.Diff(active, standby, values); diff != "" {
		t.Errorf("(-active +standby):\n%s", diff)
	}
}

func TestKeepaliveRequiresAnEndpoint(t *testing.T) {
	in := rome("rome-1")
	for endpoint, want := range map[netip.AddrPort]time.Duration{in.Peers[0].Endpoint: 25 * time.Second, {}: 0} {
		in.Peers[0].Endpoint = endpoint
		_, inside, _, err := Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := inside.Tunnel.Peers[0].Keepalive; got != want {
			t.Errorf("endpoint %s: keepalive %s, want %s", endpoint, got, want)
		}
	}
}

func TestOnlyFamiliesOfThePodsAreConfigured(t *testing.T) {
	in := rome("rome-1")
	in.PodCIDRs = in.PodCIDRs[:1]
	for i := range in.Nodes {
		in.Nodes[i].Addresses, in.Nodes[i].PodCIDRs = in.Nodes[i].Addresses[:1], in.Nodes[i].PodCIDRs[:1]
	}
	route, _, err := RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	host, inside, _, err := Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	inside.Scope.Families = nil // owned in both families
	for _, s := range []State{route, host, inside} {
		text := fmt.Sprintf("%+v", s)
		if strings.Contains(text, "fd1") || strings.Contains(text, "IPv6") || strings.Contains(text, "net/ipv6") {
			t.Errorf("IPv6 found in: %s", text)
		}
	}
}

func TestPrivateKeyIsNeverPrinted(t *testing.T) {
	in := rome("rome-1")
	in.PrivateKey = PrivateKey{0xab, 0xcd}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if text := fmt.Sprintf(format, in); strings.Contains(
			strings.ToLower(text), "abcd",
		) || strings.Contains(text, "171 205") || strings.Contains(text, "0xab") {
			t.Errorf("%s prints the key: %s", format, text)
		}
	}
}

func TestChainNamesFullHash(t *testing.T) {
	names := make(map[string]string)
	for i := range 20000 {
		id := fmt.Sprintf("cluster-%d", i)
		for _, kind := range []string{"F", "I", "O"} {
			name := peerChain(kind, id)
			if other, ok := names[name]; ok || len(name) > 28 {
				t.Fatalf("%s and %s share the chain %s, or it is too long", id, other, name)
			}
			names[name] = id
		}
	}
}
