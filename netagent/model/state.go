// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// State is what one network namespace must hold of ours. Within Scope whatever
// is not in it must go; outside of Scope nothing is touched.
type State struct {
	Scope     Scope
	Links     []Link
	Addresses []Address
	Neighbors []Neighbor
	Forwards  []Forward
	Routes    []Route
	Rules     []Rule
	// Tunnel configures the link of kind WireGuard, where there is one.
	Tunnel  *Tunnel
	Chains  []Chain
	Jumps   []Jump
	Sysctls []Sysctl
}

// Scope says what of a namespace one agent owns: two agents share a node.
type Scope struct {
	// Links are the names of the interfaces, with their addresses, neighbours
	// and forwarding entries.
	Links []string
	// Routing takes in every route and rule with RouteProtocol.
	Routing bool
	// Families are those whose chains with ChainPrefix, and the jumps to them,
	// are owned.
	Families []Family
}

// Family is an address family.
type Family uint8

// The address families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns "IPv4" or "IPv6".
func (f Family) String() string { return fmt.Sprintf("IPv%d", uint8(f)) }

// MAC is an Ethernet address.
type MAC [6]byte

// String writes the address as six hexadecimal pairs.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Kind is what a link is.
type Kind string

// The kinds of links.
const (
	// Veth is a pair; its other end is in the gateway's namespace.
	Veth Kind = "veth"
	// VethEnd is that other end. It comes and goes with its Veth.
	VethEnd Kind = "veth end"
	// VXLAN is the overlay between nodes.
	VXLAN Kind = "vxlan"
	// WireGuard is the tunnel to the peers, by the kernel or by this process.
	WireGuard Kind = "wireguard"
)

// Link is an interface. It is always up.
type Link struct {
	Name string
	Kind Kind
	MTU  int
	MAC  MAC // none on WireGuard
	// Peer and PeerMAC are the other end of a Veth.
	Peer    string
	PeerMAC MAC
	// VNI, Port and Local are the identity of a VXLAN.
	VNI   int
	Port  int
	Local netip.Addr
}

// Address is an address on an interface, without a network.
type Address struct {
	Link string
	Addr netip.Addr
}

// Neighbor is a permanent neighbour: nobody is asked who has the address.
type Neighbor struct {
	Link string
	Addr netip.Addr
	MAC  MAC
}

// Forward is an entry of a VXLAN's forwarding database: which node has a MAC.
type Forward struct {
	Link string
	MAC  MAC
	Node netip.Addr
}

// Route leads to a CIDR, through a next hop that is taken to be on the link.
type Route struct {
	Table int
	Dst   netip.Prefix
	Via   netip.Addr // invalid: the link itself
	Link  string
	// Src is the source of what the node itself sends, where it matters.
	Src netip.Addr
	MTU int // 0: that of the link
}

// Rule sends lookups to a table, or past other rules.
type Rule struct {
	Family   Family
	Priority int
	Table    int
	// From is the interface that packets come from; empty: every lookup.
	From string
	// Source is what packets come from; invalid: every lookup.
	Source netip.Prefix
	// Port is the UDP port that packets come from; 0: every lookup.
	Port int
	// Goto is the priority of the rule to go on with, in place of a table; 0: the
	// table.
	Goto int
}

// Tunnel is the configuration of WireGuard.
type Tunnel struct {
	Link       string
	PrivateKey PrivateKey
	Port       int
	Peers      []TunnelPeer
}

// TunnelPeer is one peer of a Tunnel.
type TunnelPeer struct {
	PublicKey PublicKey
	// Endpoint is where the peer is called; invalid where only the peer calls.
	Endpoint  netip.AddrPort
	Keepalive time.Duration
	// AllowedIPs are in the order of ComparePrefix.
	AllowedIPs []netip.Prefix
}

// Chain is one of our chains of iptables. Rules are what follows "-A NAME " in
// the output of iptables-save.
type Chain struct {
	Family Family
	Table  string
	Name   string
	Rules  []string
}

// Jump leads from a chain that iptables brings to one of ours.
type Jump struct {
	Family Family
	Table  string
	Base   string
	Chain  string
	// Last puts it behind all rules that are there; else it comes first.
	Last bool
}

// Sysctl is a setting of the network, by its path below /proc/sys.
type Sysctl struct {
	Path  string
	Value string
}

// PublicKey is a public key of WireGuard.
type PublicKey [32]byte

// String returns the key in base64.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// PrivateKey is a private key of WireGuard. It prints as a placeholder.
type PrivateKey [32]byte

// Public is the key that peers know this one by.
func (k PrivateKey) Public() PublicKey {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		return PublicKey{} // any 32 bytes are a key
	}
	return PublicKey(key.PublicKey().Bytes())
}

// clamped is the key as WireGuard uses and tells it.
func (k PrivateKey) clamped() PrivateKey {
	k[0], k[31] = k[0]&248, k[31]&127|64
	return k
}

const redacted = "(private key)"

// String returns a placeholder.
func (PrivateKey) String() string { return redacted }

// GoString returns a placeholder.
func (PrivateKey) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (PrivateKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText returns a placeholder.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ComparePrefix orders prefixes by address and length.
func ComparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
