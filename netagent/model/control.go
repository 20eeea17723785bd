// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"net/netip"
)

// ControlPort is the TCP port of a gateway's control address, at which peers reach the API server of the
// gateway's cluster.
const ControlPort = 5877

// controlMTU is the MTU for the control plane. As it is needed before an MTU is agreed upon or measured, it is
// the minimum of IPv6, which every path supports.
const controlMTU = minMTU

// controlPrefix contains the control addresses of all gateways. Peers must not announce a range that overlaps it.
var controlPrefix = netip.MustParsePrefix("fd6c:6971:6f00::/48")

// Control selects the control plane traffic that the tunnel to a peer carries.
type Control struct {
	// Serve permits the peer to reach the local API server. Call permits local controllers to reach the peer's API
	// server.
	Serve, Call bool
}

// enabled reports whether the tunnel carries any control plane traffic.
func (c Control) enabled() bool { return c.Serve || c.Call }

// ControlAddress returns the IPv6 address at which the gateway with a public key is reached through its tunnels.
// It contains 80 bits of the hash of the key: it is unique, and both clusters can compute it before they have
// agreed upon anything.
func ControlAddress(key PublicKey) netip.Addr {
	a := controlPrefix.Addr().As16()
	sum := sha256.Sum256(key[:])
	copy(a[controlPrefix.Bits()/8:], sum[:])
	return netip.AddrFrom16(a)
}

// controlPeers returns the peers whose tunnels carry control plane traffic.
func controlPeers(peers []Peer) []Peer {
	var some []Peer
	for _, p := range peers {
		if p.Control.enabled() {
			some = append(some, p)
		}
	}
	return some
}

// control adds the addresses and routes of the control plane to the gateway's network namespace. They are IPv6
// addresses, even if pods have IPv4 addresses only.
func (v *view) control(s *State, peers []Peer) {
	if len(peers) == 0 {
		return
	}
	s.Addresses = append(s.Addresses, Address{Link: TunnelLink, Addr: ControlAddress(v.in.PrivateKey.Public())})
	for _, p := range peers {
		s.Routes = append(
			s.Routes,
			Route{Table: MainTable, Dst: host(ControlAddress(p.PublicKey)), Link: TunnelLink, MTU: controlMTU},
		)
	}
}

// admitControl adds rules that accept connections of peers with Control.Serve to the local control port. They
// precede the rule that drops all other packets. Packets from the node to control addresses are dropped, as
// otherwise they would reach the gateways of peers.
func (v *view) admitControl(admit *Chain, peers []Peer) {
	self := ControlAddress(v.in.PrivateKey.Public())
	for _, p := range peers {
		if p.Control.Serve {
			admit.add(
				"-s %s -d %s -i %s -p tcp -m tcp --dport %d -j ACCEPT",
				host(ControlAddress(p.PublicKey)),
				host(self),
				TunnelLink,
				ControlPort,
			)
		}
	}
	if len(peers) > 0 {
		admit.add("-d %s -i %s -j DROP", controlPrefix, GatewayLink)
	}
}
