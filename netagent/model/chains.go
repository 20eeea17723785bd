// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/federation/apiserver/netmap"
)

// NATTable is the name of the iptables table that translates addresses.
const NATTable = "nat"

// FromPeersChain is the chain on a node that receives the packets from all peers.
const FromPeersChain = ChainPrefix + "FROM-PEERS"

// masqueradeMark is the bit of a packet's mark by which kube-proxy masquerades the packet, unless its configuration has
// another masqueradeBit.
const masqueradeMark = "0x4000"

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

	overlayFromPeersChain = ChainPrefix + "OVERLAY-FROM-PEERS"
	overlayToPeersChain   = ChainPrefix + "OVERLAY-TO-PEERS"
	toLocalChain          = ChainPrefix + "TO-LOCAL"
	fromLocalChain        = ChainPrefix + "FROM-LOCAL"
)

// hostChains adds to s the chains of a node for one address family. Its NAT chains exempt packets to and from peers
// from masquerading by CNIs and kube-proxy: pods keep their addresses, and other senders get the node's address, to
// which the gateway can route replies.
func (v *view) hostChains(s *State, f Family, peers []Peer) {
	post := Chain{Family: f, Table: NATTable, Name: postroutingChain}
	from := Chain{Family: f, Table: NATTable, Name: FromPeersChain}
	// NETMAP to the same range changes no address, but counts as the one source translation that a connection can have.
	// ACCEPT would end this table only, so that an nftables chain at the same hook could still masquerade.
	for _, pods := range v.podCIDRs(f) {
		post.add("-s %s -o %s+ -j NETMAP --to %s", pods, LinkPrefix, pods)
		from.add("-d %s -j ACCEPT", pods)
	}
	var remote []branch
	for _, p := range peers {
		for _, r := range ofFamily(p.Remote, f) {
			remote = append(remote, branch{prefix: r, target: FromPeersChain})
		}
	}
	further := post.addTree("-s %s", remote)
	// The other nodes, which the overlay leads to, have routes to the peers. Machines outside of the cluster have none:
	// they get packets of peers with this node's address.
	from.add("-o %s+ -j ACCEPT", LinkPrefix)
	if node := v.self.address(f); node.IsValid() {
		from.add("-j SNAT --to-source %s", node)
		post.add("-o %s+ -j SNAT --to-source %s", LinkPrefix, node)
	}
	// kube-proxy marks packets to masquerade them at POSTROUTING of nat, or of its own nftables table. The latter can
	// precede this node's chain whatever the order of jumps is, and masquerading selects an address of the node that the
	// gateway may not know: the chain above selects the one in the Node.
	marks := Chain{Family: f, Table: mangleTable, Name: postroutingChain}
	marks.add("-o %s+ -j MARK --set-xmark 0x0/%s", LinkPrefix, masqueradeMark)
	// The jump to this chain comes last, so that it accepts no packet that a CNI drops. The ACCEPT rules are for nodes
	// whose FORWARD policy is DROP. The DROP rule stops machines outside of the cluster, whose packets to peers would get
	// this node's address: only pods, and clients of Services whose endpoints are pods of peers, are permitted to send
	// packets to peers through a node.
	forward := Chain{Family: f, Table: filterTable, Name: forwardChain}
	forward.add("-i %s+ -j ACCEPT", LinkPrefix)
	for _, pods := range v.podCIDRs(f) {
		forward.add("-s %s -o %s+ -j ACCEPT", pods, LinkPrefix)
	}
	forward.add("-o %s+ -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT", LinkPrefix)
	forward.add("-o %s+ -j DROP", LinkPrefix)

	// Some CNIs assign an address of the pod CIDRs to the node. Peers must not reach the node at this address: they reach
	// nodes by AddressMappings only. The chain at PREROUTING drops their packets to it before DNAT, because kube-proxy
	// would forward packets to a node port to pods.
	local := Chain{Family: f, Table: mangleTable, Name: preroutingChain}
	input := Chain{Family: f, Table: filterTable, Name: inputChain}
	for _, pods := range v.podCIDRs(f) {
		local.add("-d %s -i %s+ -m addrtype --dst-type LOCAL -j DROP", pods, LinkPrefix)
		input.add("-d %s -i %s+ -j DROP", pods, LinkPrefix)
	}

	s.Chains = append(s.Chains, v.insideOverlay(&local, peers)...)
	s.Chains = append(s.Chains, from, post, marks, local, input, forward)
	s.Chains = append(s.Chains, further...)
	s.Jumps = append(s.Jumps,
		Jump{Family: f, Table: NATTable, Base: "POSTROUTING", Chain: postroutingChain},
		Jump{Family: f, Table: mangleTable, Base: "POSTROUTING", Chain: postroutingChain},
		Jump{Family: f, Table: mangleTable, Base: "PREROUTING", Chain: preroutingChain},
		Jump{Family: f, Table: filterTable, Base: "INPUT", Chain: inputChain},
		Jump{Family: f, Table: filterTable, Base: "FORWARD", Chain: forwardChain, Last: true})
}

// insideOverlay adds rules to c, a chain at PREROUTING, that check the addresses of packets received by the overlay,
// and returns the chains that these rules jump to. Without the check, a machine that spoofs the address of a node could
// send packets by the overlay that no NetworkPolicy filters. Valid are packets from peers to pods and to the node
// itself and, on the node of a gateway, packets from pods and nodes to peers. ICMP errors from gateways are accepted as
// RELATED to a connection.
func (v *view) insideOverlay(c *Chain, peers []Peer) []Chain {
	f := c.Family
	fromPeers := Chain{Family: f, Table: mangleTable, Name: overlayFromPeersChain}
	toLocal := Chain{Family: f, Table: mangleTable, Name: toLocalChain}
	var sources, destinations, nodes []branch
	for _, p := range peers {
		for _, r := range ofFamily(p.Remote, f) {
			sources = append(sources, branch{prefix: r, target: toLocalChain})
			destinations = append(destinations, branch{prefix: r, target: fromLocalChain})
		}
	}
	further := fromPeers.addTree("-s %s", sources)
	for _, pods := range v.podCIDRs(f) {
		toLocal.add("-d %s -j ACCEPT", pods)
	}
	for _, a := range v.self.Addresses {
		if FamilyOf(a) == f {
			toLocal.add("-d %s -j ACCEPT", host(a))
		}
	}
	c.add("-i %s -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", OverlayLink)
	c.add("-i %s -j %s", OverlayLink, overlayFromPeersChain)
	chains := []Chain{fromPeers, toLocal}
	if v.isGateway {
		toPeers := Chain{Family: f, Table: mangleTable, Name: overlayToPeersChain}
		fromLocal := Chain{Family: f, Table: mangleTable, Name: fromLocalChain}
		further = append(further, toPeers.addTree("-d %s", destinations)...)
		for _, pods := range v.podCIDRs(f) {
			fromLocal.add("-s %s -j ACCEPT", pods)
		}
		for _, n := range v.overlayPeers() {
			if a := n.address(f); a.IsValid() {
				nodes = append(nodes, branch{prefix: host(a), target: "ACCEPT"})
			}
		}
		further = append(further, fromLocal.addTree("-s %s", nodes)...)
		c.add("-i %s -j %s", OverlayLink, overlayToPeersChain)
		chains = append(chains, toPeers, fromLocal)
	}
	c.add("-i %s -j DROP", OverlayLink)
	return append(chains, further...)
}

// overlayChains adds the chains that restrict the overlay to the nodes of the cluster, as VXLAN does not
// authenticate. They are in the mangle table: packets pass it after DNAT, and an ACCEPT in it bypasses no filter
// of another program.
func (v *view) overlayChains(s *State) {
	f := v.overlayFamily()
	from := Chain{Family: f, Table: mangleTable, Name: fromNodesChain}
	to := Chain{Family: f, Table: mangleTable, Name: toNodesChain}
	var senders, receivers []branch
	for _, n := range v.overlayPeers() {
		senders = append(senders, branch{prefix: host(n.Addresses[0]), target: "ACCEPT"})
		for _, a := range n.Addresses {
			if FamilyOf(a) == f {
				receivers = append(receivers, branch{prefix: host(a), target: "DROP"})
			}
		}
	}
	further := slices.Concat(from.addTree("-s %s", senders), to.addTree("-d %s", receivers))
	from.add("-j DROP")

	// The chain at FORWARD drops packets of pods to the overlay port of other nodes: masquerading would give them this
	// node's address, so that the other nodes would accept them.
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

// gatewayChains adds to s the chains of the gateway's network namespace for one address family. They limit the
// destinations of packets from each peer, and translate addresses in both directions. Replies of a peer on connections
// that this peer did not open, and ICMP errors about connections, are accepted without a check. Each other packet of a
// peer is checked, even on a connection that was accepted before: meanwhile, the peer may have lost access to the
// address, or another pod may have received the address.
func (v *view) gatewayChains(s *State, f Family, peers []Peer) {
	admit := Chain{Family: f, Table: mangleTable, Name: preroutingChain}
	forward := Chain{Family: f, Table: mangleTable, Name: forwardChain}
	incoming := Chain{Family: f, Table: NATTable, Name: preroutingChain}
	outgoing := Chain{Family: f, Table: NATTable, Name: postroutingChain}
	admit.add("-i %s -m conntrack --ctstate ESTABLISHED --ctdir REPLY -j ACCEPT", TunnelLink)
	admit.add("-i %s -m conntrack --ctstate RELATED -j ACCEPT", TunnelLink)
	toGateways := Chain{Family: f, Table: mangleTable, Name: toGatewaysChain}
	var admitted, in, out, gateways []branch
	if f == IPv6 {
		v.admitControl(&admit, controlPeers(peers))
	}
	for _, p := range peers {
		remote := ofFamily(p.Remote, f)
		if len(remote) == 0 {
			continue
		}
		for _, r := range remote {
			admitted = append(admitted, branch{prefix: r, target: p.filterName()})
			in = append(in, branch{prefix: r, target: p.incomingName()})
			out = append(out, branch{prefix: r, target: p.outgoingName()})
		}
		gateways = append(gateways, branch{prefix: host(remote[0].Addr()), target: "DROP"})
		s.Chains = append(s.Chains, p.filterChains(f)...)
		s.Chains = append(s.Chains, p.incomingChains(f)...)
		s.Chains = append(s.Chains, p.outgoingChain(f))
	}
	further := slices.Concat(
		admit.addTree("-s %s -i "+TunnelLink, admitted),
		incoming.addTree("-s %s -i "+TunnelLink, in),
		outgoing.addTree("-d %s -o "+TunnelLink, out),
		toGateways.addTree("-d %s", gateways))
	admit.add("-i %s -j DROP", TunnelLink)
	// Without a route to the peer, a packet to it would go back to the node in a loop, and conntrack would record the
	// connection as one without translation.
	forward.add("-i %s -o %s -j DROP", GatewayLink, GatewayLink)
	// Forwarded packets to the echo server of a peer are dropped: if the sender is not a pod, they get the address of this
	// gateway and would use up the server's rate limit for this gateway's probes. The probes themselves are not forwarded,
	// and do not match this rule.
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

// filterChains returns the chains that accept packets from a peer to the addresses exposed to it, and drop its other
// packets. Replies do not pass these chains. Their rules match destinations before translation, in the addresses that
// the peer uses.
func (p Peer) filterChains(f Family) []Chain {
	c := Chain{Family: f, Table: mangleTable, Name: p.filterName()}
	var mapped []branch
	if p.Offloaded {
		// The peer probes the gateway at the representative address, which is not in Reachable.
		c.add("-d %s -p udp -m udp --dport %d -j ACCEPT", host(p.representative(f)), EchoPort)
		for _, a := range p.reachableOf(f) {
			mapped = append(mapped, branch{prefix: host(a), target: "ACCEPT"})
		}
	} else {
		for _, r := range p.localOf(f) {
			c.add("-d %s -j ACCEPT", r.Mapped)
		}
	}
	for _, m := range p.mappingsOf(f) {
		if len(m.Ports) == 0 {
			mapped = append(mapped, branch{prefix: host(m.Seen), target: "ACCEPT"})
		}
		for _, port := range m.Ports {
			mapped = append(
				mapped,
				branch{host(m.Seen), "ACCEPT", fmt.Sprintf(" -p %[1]s -m %[1]s --dport %[2]d", port.Protocol, port.Number)},
			)
		}
	}
	further := c.addTree("-d %s", mapped)
	c.add("-j DROP")
	return append(further, c)
}

// incomingChains returns the chains that translate the destinations used by a peer into local addresses.
func (p Peer) incomingChains(f Family) []Chain {
	c := Chain{Family: f, Table: NATTable, Name: p.incomingName()}
	var mapped []branch
	for _, m := range p.mappingsOf(f) {
		mapped = append(mapped, branch{prefix: host(m.Seen), target: "DNAT --to-destination " + m.Target.String()})
	}
	further := c.addTree("-d %s", mapped)
	// Packets to the representative address are for the gateway itself.
	c.add("-d %s -j DNAT --to-destination %s", host(p.representative(f)), GatewaySelf(f))
	for _, r := range p.localOf(f) {
		if r.CIDR != r.Mapped {
			c.add("-d %s -j NETMAP --to %s", r.Mapped, r.CIDR)
		}
	}
	return append(further, c)
}

// outgoingChain returns the chain that translates the sources of packets to a peer: pods get their remapped addresses,
// and all other senders the address that represents them.
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

// reachableOf returns the remapped addresses of the pods that the peer may reach.
func (p Peer) reachableOf(f Family) []netip.Addr {
	local := netmap.CIDRMappings(p.localOf(f))
	var mapped []netip.Addr
	for _, a := range p.Reachable {
		if seen, ok := local.Translate(a); ok {
			mapped = append(mapped, seen)
		}
	}
	return mapped
}

func (p Peer) mappingsOf(f Family) []Mapping {
	return slices.DeleteFunc(slices.Clone(p.Mappings), func(m Mapping) bool { return FamilyOf(m.Seen) != f })
}

func ofFamily(prefixes []netip.Prefix, f Family) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return familyOfPrefix(p) != f })
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
