// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"net/netip"
)

// ControlPort is the TCP port of a gateway's control address, where a peer
// reaches the API server of this cluster, and nothing else.
const ControlPort = 5877

// controlMTU is what IPv6 asks of every link: what is agreed upon comes later,
// and what is on the way nobody knows yet.
const controlMTU = minMTU

// controlPrefix is where the control addresses of all gateways are. No peer may
// announce any of it.
var controlPrefix = netip.MustParsePrefix("fd6c:6971:6f00::/48")

// Control says what of the control plane goes through the tunnel to a peer.
type Control struct {
	// Serve lets the peer reach our API server by the tunnel, and Call lets us
	// reach the peer's.
	Serve, Call bool
}

// wanted tells whether any of it does.
func (c Control) wanted() bool { return c.Serve || c.Call }

// ControlAddress is where the gateway with a key is reached through its tunnels
// before anything else is agreed upon: 80 bits of the hash of the key make it
// nobody else's, and whoever knows the key knows it.
func ControlAddress(key PublicKey) netip.Addr {
	a := controlPrefix.Addr().As16()
	sum := sha256.Sum256(key[:])
	copy(a[controlPrefix.Bits()/8:], sum[:])
	return netip.AddrFrom16(a)
}

// controlled are the peers whose tunnels carry some of the control plane.
func controlled(peers []Peer) []Peer {
	var some []Peer
	for _, p := range peers {
		if p.Control.wanted() {
			some = append(some, p)
		}
	}
	return some
}

// control adds what lets the control plane through the tunnels, in IPv6,
// whatever families the pods have. Where no peer asks for it there is nothing.
func (v *view) control(s *State, peers []Peer) {
	if len(peers) == 0 {
		return
	}
	s.Addresses = append(s.Addresses, Address{Link: TunnelLink, Addr: ControlAddress(v.in.PrivateKey.Public())})
	for _, p := range peers {
		s.Routes = append(s.Routes, Route{Table: MainTable, Dst: host(ControlAddress(p.PublicKey)), Link: TunnelLink, MTU: controlMTU})
	}
}

// admitControl lets those peers call our control port that are served, before
// the rules that drop what nobody was told of. What comes from the node is not
// for these addresses: it would reach the other gateways.
func (v *view) admitControl(admit *Chain, peers []Peer) {
	self := ControlAddress(v.in.PrivateKey.Public())
	for _, p := range peers {
		if p.Control.Serve {
			admit.add("-s %s -d %s -i %s -p tcp -m tcp --dport %d -j ACCEPT", host(ControlAddress(p.PublicKey)), host(self), TunnelLink, ControlPort)
		}
	}
	if len(peers) > 0 {
		admit.add("-d %s -i %s -j DROP", controlPrefix, GatewayLink)
	}
}
