// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// RouteAgent returns the state that the route agent applies on a node: the overlay, the routes to the peers
// through the active gateway and, on a gateway's node, the routes back to the other nodes. It also returns the
// peers that are refused, and fails if the values of the local cluster are invalid.
func RouteAgent(in Input) (State, []Refusal, error) {
	v, err := in.view()
	if err != nil {
		return State{}, nil, err
	}
	peers, refused := in.accepted()
	s := State{
		Scope: Scope{Links: []string{OverlayLink}, Routing: true, Families: v.hostFamilies()},
		Links: []Link{{
			Name: OverlayLink, Kind: VXLAN, MTU: v.overlayMTU(), MAC: nodeMAC(v.self.Name),
			VNI: OverlayVNI, Port: OverlayPort, Local: v.self.Addresses[0],
		}},
		Sysctls: linkSysctls(OverlayLink, v.families),
	}
	for _, n := range v.overlayPeers() {
		mac := nodeMAC(n.Name)
		s.FDBEntries = append(s.FDBEntries, FDBEntry{Link: OverlayLink, MAC: mac, Node: n.Addresses[0]})
		for _, f := range v.families {
			s.Neighbors = append(s.Neighbors, Neighbor{Link: OverlayLink, Addr: overlayHop(n, f), MAC: mac})
		}
	}
	for _, f := range v.families {
		if v.isGateway {
			s.Rules = append(s.Rules, v.bypassRules(f)...)
		}
		s.Rules = append(s.Rules, Rule{Family: f, Priority: RulePriority, Table: PeersTable})
		if v.isGateway {
			s.Rules = append(s.Rules, Rule{Family: f, Priority: RulePriority + 1, Table: NodesTable, From: HostLink})
		}
	}
	for _, p := range peers {
		for _, remote := range v.inFamilies(p.Remote) {
			s.Routes = append(s.Routes, v.toPeer(remote, v.in.routeMTU(p)))
		}
	}
	if v.isGateway {
		s.Routes = append(s.Routes, v.toNodes()...)
	}
	for _, f := range v.families {
		v.hostChains(&s, f, peers)
	}
	v.overlayChains(&s)
	sortState(&s)
	return s, refused, nil
}

// bypassRules returns rules by which WireGuard's own UDP packets skip the rule for PeersTable, so that they never enter
// the tunnel: the endpoint of a peer may be in the CIDRs of another peer. The first rule matches packets that the node
// itself sends (interface lo) from WireGuard's port, so it does not match packets of pods. IPv4 needs a rule per node
// address, too: the lookup of the reverse path filter for a reply has the node's address as source, but not lo as
// interface, so the first rule does not match it.
func (v *view) bypassRules(f Family) []Rule {
	next := RulePriority + 1
	rules := []Rule{{Family: f, Priority: RulePriority - 1, Goto: next, From: loopback, Port: v.in.Port}}
	if f == IPv6 {
		// IPv6 has no reverse path filter.
		return rules
	}
	for _, a := range v.self.Addresses {
		if FamilyOf(a) == f {
			rules = append(rules, Rule{Family: f, Priority: RulePriority - 1, Goto: next, Source: host(a), Port: v.in.Port})
		}
	}
	return rules
}

// toPeer returns the route from this node to a CIDR of a peer. The MTU is in bytes.
func (v *view) toPeer(remote netip.Prefix, mtu int) Route {
	f := familyOfPrefix(remote)
	route := Route{Table: PeersTable, Dst: remote, Src: v.self.address(f)}
	linkMTU := 0
	if v.self.Name == v.in.Active {
		route.Link, route.Via = HostLink, vethHop(gatewayHop, gatewayMAC, f)
		linkMTU = v.in.MTU
	} else {
		route.Link, route.Via = OverlayLink, overlayHop(v.active, f)
		linkMTU = v.overlayMTU()
	}
	if mtu < linkMTU {
		route.MTU = mtu
	}
	return route
}

// toNodes returns the routes from the gateway to the other nodes and their pods. Packets from peers take the same
// path as packets to peers, so that reverse path filters accept both.
func (v *view) toNodes() []Route {
	var routes []Route
	known := make(map[netip.Prefix]bool)
	for _, n := range v.overlayPeers() {
		dsts := slices.Clone(n.PodCIDRs)
		for _, a := range n.Addresses {
			dsts = append(dsts, host(a))
		}
		for _, dst := range v.inFamilies(dsts) {
			if known[dst] {
				continue
			}
			known[dst] = true
			routes = append(
				routes, Route{Table: NodesTable, Dst: dst, Via: overlayHop(n, familyOfPrefix(dst)), Link: OverlayLink},
			)
		}
	}
	return routes
}

// view is an input with values derived from it.
type view struct {
	in        Input
	self      Node
	active    Node
	isGateway bool
	families  []Family
}

func (in Input) view() (*view, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	v := &view{in: in, isGateway: slices.Contains(in.Gateways, in.Node)}
	for _, n := range in.Nodes {
		if n.Name == in.Node {
			v.self = n
		}
		if n.Name == in.Active {
			v.active = n
		}
	}
	for _, f := range []Family{IPv4, IPv6} {
		if slices.ContainsFunc(in.PodCIDRs, func(p netip.Prefix) bool { return familyOfPrefix(p) == f }) {
			v.families = append(v.families, f)
		}
	}
	for _, n := range append(v.overlayPeers(), v.self) {
		if FamilyOf(n.Addresses[0]) != v.overlayFamily() {
			return nil, fmt.Errorf(
				"the first addresses of the nodes %s and %s are of different families, which the overlay cannot span", n.Name,
				v.self.Name,
			)
		}
		if slices.Contains(v.families, IPv4) && !n.address(IPv4).IsValid() {
			return nil, fmt.Errorf("node %s has no IPv4 address, but the cluster has IPv4 pod CIDRs", n.Name)
		}
	}
	return v, nil
}

// overlayPeers returns the nodes with which this node exchanges packets on the overlay, sorted by name. For a node with
// a gateway they are all other nodes, for any other node they are the nodes with a gateway.
func (v *view) overlayPeers() []Node {
	var peers []Node
	for _, n := range v.in.Nodes {
		if n.Name != v.in.Node && (v.isGateway || slices.Contains(v.in.Gateways, n.Name)) {
			peers = append(peers, n)
		}
	}
	slices.SortFunc(peers, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return peers
}

// inFamilies returns the prefixes whose address family is one of the pods' families.
func (v *view) inFamilies(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return !slices.Contains(v.families, familyOfPrefix(p))
	})
}

// podCIDRs returns the pod CIDRs of one family, sorted.
func (v *view) podCIDRs(f Family) []netip.Prefix {
	cidrs := slices.DeleteFunc(slices.Clone(v.in.PodCIDRs), func(p netip.Prefix) bool { return familyOfPrefix(p) != f })
	slices.SortFunc(cidrs, ComparePrefix)
	return slices.Compact(cidrs)
}

// overlayFamily returns the family of the overlay's outer packets.
func (v *view) overlayFamily() Family { return FamilyOf(v.self.Addresses[0]) }

// hostFamilies returns the families in which a node has chains: the families of the pods and the family of the
// overlay.
func (v *view) hostFamilies() []Family {
	if f := v.overlayFamily(); !slices.Contains(v.families, f) {
		return append(slices.Clone(v.families), f)
	}
	return v.families
}

func (v *view) overlayMTU() int {
	if v.overlayFamily() == IPv4 {
		return v.in.MTU - overlayOverhead4
	}
	return v.in.MTU - overlayOverhead6
}

func (in Input) tunnelMTU() int { return in.MTU - tunnelOverhead }

// PeerMTU returns the size of the largest packet to a peer inside of the tunnel, in bytes. Agreed is the agreed
// MTU; 0 means that none is agreed upon yet.
func (in Input) PeerMTU(agreed int) int {
	if agreed == 0 {
		return in.tunnelMTU()
	}
	return min(agreed, in.tunnelMTU())
}

// routeMTU returns the MTU of the routes to a peer, in bytes: the path MTU if it is known and less than the
// agreed MTU, and the agreed MTU otherwise.
func (in Input) routeMTU(p Peer) int {
	mtu := in.PeerMTU(p.MTU)
	if p.PathMTU == 0 {
		return mtu
	}
	return min(mtu, p.PathMTU)
}

// address returns the first address of the node in a family; invalid if it has none.
func (n Node) address(f Family) netip.Addr {
	for _, a := range n.Addresses {
		if FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// overlayHop returns the next hop for packets to a node on the overlay: its IPv4 address, or for IPv6 the link-local
// address of its MAC on the overlay.
func overlayHop(n Node, f Family) netip.Addr {
	if f == IPv4 {
		return n.address(IPv4)
	}
	return linkLocal(nodeMAC(n.Name))
}

// vethHop returns the next hop for packets to the end of the veth pair with this MAC: hop for IPv4, and the link-local
// address of the MAC for IPv6.
func vethHop(hop netip.Addr, mac MAC, f Family) netip.Addr {
	if f == IPv4 {
		return hop
	}
	return linkLocal(mac)
}

// linkSysctls returns the kernel parameters of an interface. For IPv4 they enable forwarding and disable the reverse
// path filter, because replies may take another path than requests. For IPv6 they enable IPv6 and make the interface
// ignore router advertisements.
func linkSysctls(link string, families []Family) []Sysctl {
	var settings []Sysctl
	for _, f := range families {
		if f == IPv4 {
			settings = append(settings,
				Sysctl{"net/ipv4/conf/" + link + "/forwarding", "1"},
				Sysctl{"net/ipv4/conf/" + link + "/rp_filter", "0"})
			continue
		}
		settings = append(settings,
			Sysctl{"net/ipv6/conf/" + link + "/disable_ipv6", "0"},
			Sysctl{"net/ipv6/conf/" + link + "/accept_ra", "0"})
	}
	return settings
}

func familyOfPrefix(p netip.Prefix) Family { return FamilyOf(p.Addr()) }
