// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model computes what the kernel of a node must hold so that pods reach the pods of remote clusters:
// links, addresses, routes, rules, WireGuard peers and iptables chains. It is pure: it reads neither the kernel
// nor the API, and its results do not depend on the order of lists in the input.
package model

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
)

// loopback is the input interface that rules match for packets sent by the node itself.
const loopback = "lo"

// Names of interfaces. The common prefix lets CNIs be configured to ignore them; Linux allows 15 bytes.
const (
	LinkPrefix  = "liqo."
	OverlayLink = "liqo.vxlan"   // on every node, to the gateways
	HostLink    = "liqo.host"    // on a gateway's node, to the gateway's namespace
	GatewayLink = "liqo.gateway" // in the gateway's namespace, to its node
	TunnelLink  = "liqo.wg"      // in the gateway's namespace, to the peers
)

// Marks of ownership. Objects without one of them are not touched.
const (
	// RouteProtocol is the protocol ID of owned routes and rules. Neither iproute2 nor the routing daemons that it
	// lists use it.
	RouteProtocol = 58
	// MainTable is the kernel's main table, which the agents own in the gateway's namespace only.
	MainTable = 254
	// PeersTable holds the routes to the peers' CIDRs, NodesTable those from the gateway back to the other nodes.
	PeersTable = 5872
	NodesTable = 5873
	// RulePriority-1 to RulePriority+1 are the priorities of owned rules. They precede the source-based rules of
	// the known CNIs.
	RulePriority = 480
	// ChainPrefix is the prefix of the names of all owned chains.
	ChainPrefix = "LIQO-"
)

// The overlay between the nodes of one cluster.
const (
	OverlayVNI  = 5872
	OverlayPort = 5872
)

// EchoPort is the UDP port on which a gateway answers probes of its peers inside of the tunnel.
const EchoPort = 5874

// Bytes that encapsulation adds to a packet, by the IP version of the outer header for the overlay.
const (
	overlayOverhead4 = 50
	overlayOverhead6 = 70
	tunnelOverhead   = 80
)

// The ends of the veth pair between a node and its gateway. The addresses are next hops only and are assigned to
// no interface: permanent neighbour entries resolve them.
var (
	hostMAC    = MAC{0x0a, 0x6c, 0x71, 0, 0, 1}
	gatewayMAC = MAC{0x0a, 0x6c, 0x71, 0, 0, 2}

	hostHop    = netip.AddrFrom4([4]byte{169, 254, 58, 1})
	gatewayHop = netip.AddrFrom4([4]byte{169, 254, 58, 2})
)

// The addresses of the gateway itself, inside of its namespace. It cannot use the addresses by which peers reach
// it: two clusters may remap each other to the same range, so that the remote gateway's address would be a local
// one. Peers cannot announce these addresses: they are link-local, or in the discard prefix of RFC 6666.
var (
	gatewaySelf4 = netip.AddrFrom4([4]byte{169, 254, 58, 3})
	gatewaySelf6 = netip.MustParseAddr("100::6c71:3")
)

// GatewaySelf returns the gateway's own address of a family, inside of its namespace.
func GatewaySelf(f Family) netip.Addr {
	if f == IPv4 {
		return gatewaySelf4
	}
	return gatewaySelf6
}

// nodeMAC returns the MAC of a node on the overlay: locally administered, and derived from its name, so that
// every node computes the same.
func nodeMAC(node string) MAC {
	sum := sha256.Sum256([]byte(node))
	mac := MAC(sum[:6])
	mac[0] = mac[0]&^1 | 2
	return mac
}

// linkLocal is the IPv6 address that an interface derives from its MAC.
func linkLocal(mac MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// peerChain returns the name of a peer's chain. It fills the 28 bytes that iptables allows with 100 bits of the
// hash of the cluster ID, so that peers do not collide.
func peerChain(kind, clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return ChainPrefix + kind + "-" + lowerBase32.EncodeToString(sum[:])[:20]
}
