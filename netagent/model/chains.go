// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/federation/apiserver/netmap"
)

// NATTable is the table of iptables in which addresses become others.
const NATTable = "nat"

// FromPeersChain is the chain of a node that the ranges of all peers lead to.
const FromPeersChain = ChainPrefix + "FROM-PEERS"

// Other tables, and chains of iptables.
const (
	mangleTable = "mangle"
	filterTable = "filter"

	preroutingChain  = ChainPrefix + "PREROUTING"
	inputChain       = ChainPrefix + "INPUT"
	forwardChain     = ChainPrefix + "FORWARD"
	postroutingChain = ChainPrefix + "POSTROUTING"

	fromNodesChain = ChainPrefix + "FROM-NODES"
	toNodesChain   = ChainPrefix + "TO-NODES"

	toGatewaysChain = ChainPrefix + "TO-GATEWAYS"
)

// hostChains are those of a node. No masquerading of a CNI or of kube-proxy may
// meet what goes to peers or comes from them: pods keep their addresses, and
// what is no pod gets the node's, which the gateway finds the way back to.
func (v *view) hostChains(s *State, f Family, peers []Peer) {
	post := Chain{Family: f, Table: NATTable, Name: postroutingChain}
	from := Chain{Family: f, Table: NATTable, Name: FromPeersChain}
	// An ACCEPT would only end this table: somebody else's chain of nftables, at
	// the same hook, could masquerade after it. NETMAP to the same range is a
	// translation, and there is one of them.
	for _, pods := range v.podCIDRs(f) {
		post.add("-s %s -o %s+ -j NETMAP --to %s", pods, LinkPrefix, pods)
		from.add("-d %s -j ACCEPT", pods)
	}
	var remote []way
	for _, p := range peers {
		for _, r := range ofFamily(p.Remote, f) {
			remote = append(remote, way{prefix: r, target: FromPeersChain})
		}
	}
	further := post.spread("-s %s", remote)
	// Other nodes know the way back to peers, and expect their packets from the
	// overlay. Who is no node does not.
	from.add("-o %s+ -j ACCEPT", LinkPrefix)
	if node := v.self.address(f); node.IsValid() {
		from.add("-j SNAT --to-source %s", node)
		post.add("-o %s+ -j SNAT --to-source %s", LinkPrefix, node)
	}
	// Where the policy of FORWARD is to drop. It comes last, so that whatever a
	// CNI refuses stays refused.
	forward := Chain{Family: f, Table: filterTable, Name: forwardChain}
	forward.add("-i %s+ -j ACCEPT", LinkPrefix)
	forward.add("-o %s+ -j ACCEPT", LinkPrefix)

	// A CNI gives nodes addresses among the pods. Peers were told of pods: who
	// calls a node needs a mapping.
	input := Chain{Family: f, Table: filterTable, Name: inputChain}
	for _, pods := range v.podCIDRs(f) {
		input.add("-d %s -i %s+ -j DROP", pods, LinkPrefix)
	}

	s.Chains = append(s.Chains, from, post, input, forward)
	s.Chains = append(s.Chains, further...)
	s.Jumps = append(s.Jumps,
		Jump{Family: f, Table: NATTable, Base: "POSTROUTING", Chain: postroutingChain},
		Jump{Family: f, Table: filterTable, Base: "INPUT", Chain: inputChain},
		Jump{Family: f, Table: filterTable, Base: "FORWARD", Chain: forwardChain, Last: true})
}

// overlayChains keep the overlay to the nodes that this one exchanges packets with
// there: VXLAN itself asks nobody who they are. They are in a table in which
// nobody else decides who comes in, so that an ACCEPT overrules no other filter,
// and behind whatever gives a packet another destination.
func (v *view) overlayChains(s *State) {
	f := v.overlayFamily()
	from := Chain{Family: f, Table: mangleTable, Name: fromNodesChain}
	to := Chain{Family: f, Table: mangleTable, Name: toNodesChain}
	var callers, called []way
	for _, n := range v.others() {
		callers = append(callers, way{prefix: host(n.Addresses[0]), target: "ACCEPT"})
		for _, a := range n.Addresses {
			if FamilyOf(a) == f {
				called = append(called, way{prefix: host(a), target: "DROP"})
			}
		}
	}
	further := slices.Concat(from.spread("-s %s", callers), to.spread("-d %s", called))
	from.add("-j DROP")

	// What a pod sends has the address of its node, by the time it leaves that.
	input := Chain{Family: f, Table: mangleTable, Name: inputChain}
	input.add("-p udp -m udp --dport %d -j %s", OverlayPort, fromNodesChain)
	forward := Chain{Family: f, Table: mangleTable, Name: forwardChain}
	forward.add("-p udp -m udp --dport %d -j %s", OverlayPort, toNodesChain)

	s.Chains = append(s.Chains, from, to, input, forward)
	s.Chains = append(s.Chains, further...)
	s.Jumps = append(s.Jumps,
		Jump{Family: f, Table: mangleTable, Base: "INPUT", Chain: inputChain},
		Jump{Family: f, Table: mangleTable, Base: "FORWARD", Chain: forwardChain})
}

// gatewayChains are those of the gateway's namespace: what a peer may call,
// what its packets' addresses become, and what those of ours become on the way
// to it.
func (v *view) gatewayChains(s *State, f Family, peers []Peer) {
	admit := Chain{Family: f, Table: mangleTable, Name: preroutingChain}
	forward := Chain{Family: f, Table: mangleTable, Name: forwardChain}
	incoming := Chain{Family: f, Table: NATTable, Name: preroutingChain}
	outgoing := Chain{Family: f, Table: NATTable, Name: postroutingChain}
	admit.add("-i %s -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", TunnelLink)
	toGateways := Chain{Family: f, Table: mangleTable, Name: toGatewaysChain}
	var admitted, in, out, gateways []way
	if f == IPv6 {
		v.admitControl(&admit, controlled(peers))
	}
	for _, p := range peers {
		remote := ofFamily(p.Remote, f)
		if len(remote) == 0 {
			continue
		}
		for _, r := range remote {
			admitted = append(admitted, way{prefix: r, target: p.filterName()})
			in = append(in, way{prefix: r, target: p.incomingName()})
			out = append(out, way{prefix: r, target: p.outgoingName()})
		}
		gateways = append(gateways, way{prefix: host(remote[0].Addr()), target: "DROP"})
		s.Chains = append(s.Chains, p.filterChains(f)...)
		s.Chains = append(s.Chains, p.incomingChains(f)...)
		s.Chains = append(s.Chains, p.outgoingChain(f))
	}
	further := slices.Concat(
		admit.spread("-s %s -i "+TunnelLink, admitted),
		incoming.spread("-s %s -i "+TunnelLink, in),
		outgoing.spread("-d %s -o "+TunnelLink, out),
		toGateways.spread("-d %s", gateways))
	admit.add("-i %s -j DROP", TunnelLink)
	// While the way to a peer is missing, its packets would go back where they
	// came from, round and round, and the connection would be remembered as one
	// whose addresses stay.
	forward.add("-i %s -o %s -j DROP", GatewayLink, GatewayLink)
	// What is no pod here has the address of this gateway there, which is answered
	// so often and no more: the probes of this one, which are not forwarded, would be
	// in vain.
	forward.add("-i %s -p udp -m udp --dport %d -j %s", GatewayLink, EchoPort, toGatewaysChain)
	forward.add("-p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu")

	s.Chains = append(s.Chains, admit, forward, toGateways, incoming, outgoing)
	s.Chains = append(s.Chains, further...)
	for _, j := range []Jump{
		{Table: mangleTable, Base: "PREROUTING", Chain: preroutingChain},
		{Table: mangleTable, Base: "FORWARD", Chain: forwardChain},
		{Table: NATTable, Base: "PREROUTING", Chain: preroutingChain},
		{Table: NATTable, Base: "POSTROUTING", Chain: postroutingChain},
	} {
		j.Family = f
		s.Jumps = append(s.Jumps, j)
	}
}

func (p Peer) filterName() string   { return peerChain("F", p.ClusterID) }
func (p Peer) incomingName() string { return peerChain("I", p.ClusterID) }
func (p Peer) outgoingName() string { return peerChain("O", p.ClusterID) }

// filterChains let a peer call what it was told of, and nothing else.
func (p Peer) filterChains(f Family) []Chain {
	c := Chain{Family: f, Table: mangleTable, Name: p.filterName()}
	for _, r := range p.localOf(f) {
		c.add("-d %s -j ACCEPT", r.Mapped)
	}
	var mapped []way
	for _, m := range p.mappingsOf(f) {
		if len(m.Ports) == 0 {
			mapped = append(mapped, way{prefix: host(m.Seen), target: "ACCEPT"})
		}
		for _, port := range m.Ports {
			mapped = append(mapped, way{host(m.Seen), "ACCEPT", fmt.Sprintf(" -p %[1]s -m %[1]s --dport %[2]d", port.Protocol, port.Number)})
		}
	}
	further := c.spread("-d %s", mapped)
	c.add("-j DROP")
	return append(further, c)
}

// incomingChains give what a peer calls its own address back.
func (p Peer) incomingChains(f Family) []Chain {
	c := Chain{Family: f, Table: NATTable, Name: p.incomingName()}
	var mapped []way
	for _, m := range p.mappingsOf(f) {
		mapped = append(mapped, way{prefix: host(m.Seen), target: "DNAT --to-destination " + m.Target.String()})
	}
	further := c.spread("-d %s", mapped)
	// The gateway itself answers here.
	c.add("-d %s -j DNAT --to-destination %s", host(p.representative(f)), GatewaySelf(f))
	for _, r := range p.localOf(f) {
		if r.CIDR != r.Mapped {
			c.add("-d %s -j NETMAP --to %s", r.Mapped, r.CIDR)
		}
	}
	return append(further, c)
}

// outgoingChain shows a peer our pods at the addresses that it knows, and
// whatever is no pod at the one that stands for it.
func (p Peer) outgoingChain(f Family) Chain {
	c := Chain{Family: f, Table: NATTable, Name: p.outgoingName()}
	for _, r := range p.localOf(f) {
		if r.CIDR == r.Mapped {
			c.add("-s %s -j ACCEPT", r.CIDR)
		} else {
			c.add("-s %s -j NETMAP --to %s", r.CIDR, r.Mapped)
		}
	}
	c.add("-j SNAT --to-source %s", p.representative(f))
	return c
}

func (c *Chain) add(format string, args ...any) {
	c.Rules = append(c.Rules, fmt.Sprintf(format, args...))
}

func (p Peer) localOf(f Family) []netmap.CIDRMapping {
	return slices.DeleteFunc(slices.Clone(p.Local), func(r netmap.CIDRMapping) bool { return familyOfPrefix(r.CIDR) != f })
}

func (p Peer) mappingsOf(f Family) []Mapping {
	return slices.DeleteFunc(slices.Clone(p.Mappings), func(m Mapping) bool { return FamilyOf(m.Seen) != f })
}

func ofFamily(prefixes []netip.Prefix, f Family) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return familyOfPrefix(p) != f })
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
