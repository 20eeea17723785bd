// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model computes what the kernel of a node must have so that pods reach the pods of remote clusters: links,
// addresses, routes, rules, WireGuard peers and iptables chains. It reads neither the kernel nor the API: its results
// depend on its input only. The order of a list in the input has no effect, except for Node.Addresses and Peer.Local.
package model

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
)

// loopback is the input interface by which routing rules match packets that the node itself sends.
const loopback = "lo"

// Names of links. They have a common prefix so that CNIs can be configured to ignore them, and at most 15 bytes,
// as Linux requires.
const (
	LinkPrefix  = "liqo."
	OverlayLink = "liqo.vxlan"   // on every node, to the gateways
	HostLink    = "liqo.host"    // on a gateway's node, to the gateway's namespace
	GatewayLink = "liqo.gateway" // in the gateway's namespace, to its node
	TunnelLink  = "liqo.wg"      // in the gateway's namespace, to the peers
)

// Numbers and prefixes by which the agents recognize the objects that they own. They never change other objects.
const (
	// RouteProtocol is the protocol ID of the agents' routes and routing rules. No program in the list of iproute2 uses
	// it.
	RouteProtocol = 58
	// MainTable is the kernel's main table, which the agents own in the gateway's namespace only.
	MainTable = 254
	// PeersTable holds the routes to the peers' CIDRs, and NodesTable the routes from the gateway back to the
	// other nodes.
	PeersTable = 5872
	NodesTable = 5873
	// RulePriority is the priority of the agents' routing rules; some have RulePriority-1 or RulePriority+1. They come
	// before the source-based rules of the known CNIs.
	RulePriority = 480
	// ChainPrefix is the prefix of the names of all chains of the agents.
	ChainPrefix = "LIQO-"
)

// VNI and UDP port of the overlay, the VXLAN between the nodes of one cluster.
const (
	OverlayVNI  = 5872
	OverlayPort = 5872
)

// EchoPort is the UDP port at which a gateway replies to probes of its peers, inside of the tunnel.
const EchoPort = 5874

// Sizes of the headers that encapsulation adds to a packet, in bytes. The size for the overlay depends on the IP
// version of the outer header.
const (
	overlayOverhead4 = 50
	overlayOverhead6 = 70
	tunnelOverhead   = 80
)

// MACs and addresses of the two ends of the veth pair between a node and its gateway. The addresses are next hops
// only: no interface has them, and permanent neighbour entries resolve them.
var (
	hostMAC    = MAC{0x0a, 0x6c, 0x71, 0, 0, 1}
	gatewayMAC = MAC{0x0a, 0x6c, 0x71, 0, 0, 2}

	hostHop    = netip.AddrFrom4([4]byte{169, 254, 58, 1})
	gatewayHop = netip.AddrFrom4([4]byte{169, 254, 58, 2})
)

// Addresses of the gateway itself in its network namespace. They differ from the addresses by which peers reach the
// gateway: if two clusters remap each other to the same range, the address by which the peer reaches this gateway is
// also the address of the peer's gateway. Peers cannot announce ranges with these addresses, as they are link-local or
// in the discard prefix of RFC 6666.
var (
	gatewaySelf4 = netip.AddrFrom4([4]byte{169, 254, 58, 3})
	gatewaySelf6 = netip.MustParseAddr("100::6c71:3")
)

// GatewaySelf returns the gateway's own address in its network namespace, by family.
func GatewaySelf(f Family) netip.Addr {
	if f == IPv4 {
		return gatewaySelf4
	}
	return gatewaySelf6
}

// nodeMAC returns the MAC of a node on the overlay. It is locally administered and derived from the node's name,
// so that every node can compute it.
func nodeMAC(node string) MAC {
	sum := sha256.Sum256([]byte(node))
	mac := MAC(sum[:6])
	mac[0] = mac[0]&^1 | 2
	return mac
}

// linkLocal returns the IPv6 address that an interface derives from its MAC.
func linkLocal(mac MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// peerChain returns the name of a chain for a peer. It fits into the 28 bytes that iptables allows, and has 100 bits of
// the cluster ID's hash, so that two peers never share a chain.
func peerChain(kind, clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return ChainPrefix + kind + "-" + lowerBase32.EncodeToString(sum[:])[:20]
}
