// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model computes, from plain values, what the kernel of a node must
// hold so that pods reach the pods of other clusters: links, addresses, routes,
// rules, WireGuard peers and chains. It asks no kernel and no API, and equal
// inputs give equal results, in whatever order they come.
package model

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
)

// loopback is where packets come from, to rules, that this node itself sends.
const loopback = "lo"

// Interfaces. All begin with LinkPrefix, so that a CNI can be told to leave
// them alone, and no name is longer than the 15 bytes that Linux allows.
const (
	LinkPrefix  = "liqo."
	OverlayLink = "liqo.vxlan"   // on every node: to the gateways
	HostLink    = "liqo.host"    // on a gateway's node: to the gateway's namespace
	GatewayLink = "liqo.gateway" // in the gateway's namespace: to its node
	TunnelLink  = "liqo.wg"      // in the gateway's namespace: to the peers
)

// Marks of ownership: what carries one of these is ours, and nothing else is.
const (
	// RouteProtocol is the protocol id of our routes and rules. iproute2 and
	// the routing daemons it lists do not use it.
	RouteProtocol = 58
	// MainTable is the kernel's table main; ours only in the gateway's
	// namespace.
	MainTable = 254
	// PeersTable leads to the CIDRs of the peers, NodesTable from the gateway
	// back to the other nodes.
	PeersTable = 5872
	NodesTable = 5873
	// RulePriority, the one before and the one after it lie before those of the
	// known CNIs that route by source.
	RulePriority = 480
	// ChainPrefix begins the name of each of our chains.
	ChainPrefix = "LIQO-"
)

// The overlay between the nodes of one cluster.
const (
	OverlayVNI  = 5872
	OverlayPort = 5872
)

// EchoPort is where a gateway answers its peers, by UDP, inside of the tunnel.
const EchoPort = 5874

// Bytes that encapsulation adds to a packet.
const (
	overlayOverhead4 = 50
	overlayOverhead6 = 70
	tunnelOverhead   = 80
)

// The two ends of the pair between a node and its gateway. The addresses are
// next hops only: nobody has them, the neighbours are written by us.
var (
	hostMAC    = MAC{0x0a, 0x6c, 0x71, 0, 0, 1}
	gatewayMAC = MAC{0x0a, 0x6c, 0x71, 0, 0, 2}

	hostHop    = netip.AddrFrom4([4]byte{169, 254, 58, 1})
	gatewayHop = netip.AddrFrom4([4]byte{169, 254, 58, 2})
)

// The addresses of the gateway itself, within its namespace. It cannot have
// those that peers know it by: two clusters may call each other the same, and
// the other gateway's would be our own. No peer may announce these, which are
// link-local and of the prefix of RFC 6666 that every router discards.
var (
	gatewaySelf4 = netip.AddrFrom4([4]byte{169, 254, 58, 3})
	gatewaySelf6 = netip.MustParseAddr("100::6c71:3")
)

// GatewaySelf is the gateway's own address of a family, within its namespace.
func GatewaySelf(f Family) netip.Addr {
	if f == IPv4 {
		return gatewaySelf4
	}
	return gatewaySelf6
}

// nodeMAC is the address of a node on the overlay: locally administered, and
// the same wherever it is computed.
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

// peerChain names the chain of a peer: 100 bits of the hash of its cluster id
// fill the 28 bytes that iptables allows, so that no two peers share one.
func peerChain(kind, clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return ChainPrefix + kind + "-" + lowerBase32.EncodeToString(sum[:])[:20]
}
