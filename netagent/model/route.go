// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// RouteAgent returns what a node must hold: the overlay, the ways to the peers
// through the active gateway, and, on a gateway's node, those back to the other
// nodes. It returns the peers that it leaves out, and an error where the
// cluster's own values make no sense.
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
	for _, n := range v.others() {
		mac := nodeMAC(n.Name)
		s.Forwards = append(s.Forwards, Forward{Link: OverlayLink, MAC: mac, Node: n.Addresses[0]})
		for _, f := range v.families {
			s.Neighbors = append(s.Neighbors, Neighbor{Link: OverlayLink, Addr: overlayHop(n, f), MAC: mac})
		}
	}
	for _, f := range v.families {
		if v.isGateway {
			s.Rules = append(s.Rules, v.besideTheTunnel(f)...)
		}
		s.Rules = append(s.Rules, Rule{Family: f, Priority: RulePriority, Table: PeersTable})
		if v.isGateway {
			s.Rules = append(s.Rules, Rule{Family: f, Priority: RulePriority + 1, Table: NodesTable, From: HostLink})
		}
	}
	for _, p := range peers {
		for _, remote := range v.served(p.Remote) {
			s.Routes = append(s.Routes, v.toPeer(remote, v.in.passes(p)))
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

// besideTheTunnel has what the tunnel itself sends never go into the tunnel: a
// peer's gateway may be called at an address that another peer calls its pods by.
// It goes on with what comes after our rules, as if these were not there. A
// filter of reverse paths looks up what it would answer, from the node's address
// and without asking rules of a port about this node's own packets. Nothing that
// a pod sends is meant.
func (v *view) besideTheTunnel(f Family) []Rule {
	past := RulePriority + 1
	rules := []Rule{{Family: f, Priority: RulePriority - 1, Goto: past, From: loopback, Port: v.in.Port}}
	if f == IPv6 {
		// It has no such filter.
		return rules
	}
	for _, a := range v.self.Addresses {
		if FamilyOf(a) == f {
			rules = append(rules, Rule{Family: f, Priority: RulePriority - 1, Goto: past, Source: host(a), Port: v.in.Port})
		}
	}
	return rules
}

// toPeer is the way from this node to a CIDR of a peer, for packets that measure
// so much at most.
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

// toNodes are the ways from the gateway to the other nodes and their pods: the
// same that the packets to the peers take, so that no filter of reverse paths
// minds.
func (v *view) toNodes() []Route {
	var routes []Route
	known := make(map[netip.Prefix]bool)
	for _, n := range v.others() {
		dsts := slices.Clone(n.PodCIDRs)
		for _, a := range n.Addresses {
			dsts = append(dsts, host(a))
		}
		for _, dst := range v.served(dsts) {
			if known[dst] {
				continue
			}
			known[dst] = true
			routes = append(routes, Route{Table: NodesTable, Dst: dst, Via: overlayHop(n, familyOfPrefix(dst)), Link: OverlayLink})
		}
	}
	return routes
}

// view is an input with what is asked of it often.
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
	for _, n := range append(v.others(), v.self) {
		if FamilyOf(n.Addresses[0]) != v.overlayFamily() {
			return nil, fmt.Errorf("the first addresses of the nodes %s and %s are of different families: no overlay can span both", n.Name, v.self.Name)
		}
		if slices.Contains(v.families, IPv4) && !n.address(IPv4).IsValid() {
			return nil, fmt.Errorf("node %s has no IPv4 address, but the pods have", n.Name)
		}
	}
	return v, nil
}

// others are the nodes that this one exchanges packets with on the overlay: a
// gateway with all, another node with the gateways.
func (v *view) others() []Node {
	var others []Node
	for _, n := range v.in.Nodes {
		if n.Name != v.in.Node && (v.isGateway || slices.Contains(v.in.Gateways, n.Name)) {
			others = append(others, n)
		}
	}
	slices.SortFunc(others, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return others
}

// served are the prefixes of the families that the cluster has.
func (v *view) served(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return !slices.Contains(v.families, familyOfPrefix(p))
	})
}

// podCIDRs are those of one family, in order.
func (v *view) podCIDRs(f Family) []netip.Prefix {
	own := slices.DeleteFunc(slices.Clone(v.in.PodCIDRs), func(p netip.Prefix) bool { return familyOfPrefix(p) != f })
	slices.SortFunc(own, ComparePrefix)
	return slices.Compact(own)
}

// overlayFamily is the one in which nodes call each other on the overlay.
func (v *view) overlayFamily() Family { return FamilyOf(v.self.Addresses[0]) }

// hostFamilies are those in which a node has chains: the pods' ones, and that of
// the overlay.
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

// PeerMTU is what a packet to a peer may measure inside of the tunnel, in bytes;
// 0 was agreed upon where nothing was.
func (in Input) PeerMTU(agreed int) int {
	if agreed == 0 {
		return in.tunnelMTU()
	}
	return min(agreed, in.tunnelMTU())
}

// passes is what a packet to a peer measures at most that is sent, in bytes: what
// it may, or what the way takes.
func (in Input) passes(p Peer) int {
	mtu := in.PeerMTU(p.MTU)
	if p.PathMTU == 0 {
		return mtu
	}
	return min(mtu, p.PathMTU)
}

// address is the first address of a family that a node has.
func (n Node) address(f Family) netip.Addr {
	for _, a := range n.Addresses {
		if FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// overlayHop is a node as a next hop on the overlay.
func overlayHop(n Node, f Family) netip.Addr {
	if f == IPv4 {
		return n.address(IPv4)
	}
	return linkLocal(nodeMAC(n.Name))
}

// vethHop is one end of the pair as a next hop.
func vethHop(hop netip.Addr, mac MAC, f Family) netip.Addr {
	if f == IPv4 {
		return hop
	}
	return linkLocal(mac)
}

// linkSysctls let an interface forward, whichever way the answer goes.
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
