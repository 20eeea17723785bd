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

// State has the objects that an agent owns in one network namespace. Objects in Scope that are not listed must be
// deleted. Objects outside of Scope must not be changed.
type State struct {
	Scope      Scope
	Links      []Link
	Addresses  []Address
	Neighbors  []Neighbor
	FDBEntries []FDBEntry
	Routes     []Route
	Rules      []Rule
	// Tunnel is the configuration of WireGuard; nil in a network namespace without a tunnel.
	Tunnel  *Tunnel
	Chains  []Chain
	Jumps   []Jump
	Sysctls []Sysctl
}

// Scope selects the objects of a network namespace that one agent owns. A node has two agents.
type Scope struct {
	// Links are the names of the owned links. Their addresses, neighbours and FDB entries are owned, too.
	Links []string
	// Routing is true if the agent owns all routes and rules with RouteProtocol, so that those that State does not
	// list are deleted.
	Routing bool
	// Families are the families in which the chains whose name starts with ChainPrefix, and the jumps to them,
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

// FamilyOf returns the family of an address. IPv4-mapped IPv6 addresses are IPv6.
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

// String returns the address as six hexadecimal pairs.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Kind is the type of a link.
type Kind string

// The kinds of links.
const (
	// Veth is the end on the node of a pair whose other end is in the gateway's network namespace.
	Veth Kind = "veth"
	// VethEnd is the other end of a Veth. It is created and deleted together with the Veth.
	VethEnd Kind = "veth end"
	// VXLAN is the overlay between the nodes.
	VXLAN Kind = "vxlan"
	// WireGuard is the tunnel to the peers, implemented by the kernel or by wireguard-go in the gateway's process.
	WireGuard Kind = "wireguard"
)

// Link is a network interface, which is to be up.
type Link struct {
	Name string
	Kind Kind
	MTU  int
	MAC  MAC // zero for WireGuard, which has no MAC
	// Peer and PeerMAC are name and MAC of the other end of a Veth.
	Peer    string
	PeerMAC MAC
	// VNI, Port and Local identify a VXLAN.
	VNI   int
	Port  int
	Local netip.Addr
}

// Address is an address on a link, with the full prefix length (/32 or /128).
type Address struct {
	Link string
	Addr netip.Addr
}

// Neighbor is a permanent neighbour entry, for which the kernel sends no ARP or NDP requests.
type Neighbor struct {
	Link string
	Addr netip.Addr
	MAC  MAC
}

// FDBEntry is an entry in the forwarding database of a VXLAN: the address of the node that has a MAC.
type FDBEntry struct {
	Link string
	MAC  MAC
	Node netip.Addr
}

// Route is a route to a CIDR. Its next hop counts as reachable on the link (onlink).
type Route struct {
	Table int
	Dst   netip.Prefix
	Via   netip.Addr // next hop; invalid if Dst is on the link
	Link  string
	// Src is the source address of packets that the node itself sends; invalid lets the kernel select it.
	Src netip.Addr
	MTU int // in bytes; 0 means the MTU of the link
}

// Rule is a routing rule, which looks up a table or skips other rules.
type Rule struct {
	Family   Family
	Priority int
	Table    int
	// From is the interface on which packets arrive; empty matches all.
	From string
	// Source matches the source address; invalid matches all.
	Source netip.Prefix
	// Port matches the UDP source port; 0 matches all.
	Port int
	// Goto is the priority of the rule to continue with; 0 means that Table is looked up.
	Goto int
}

// Tunnel is the configuration of WireGuard.
type Tunnel struct {
	Link       string
	PrivateKey PrivateKey
	Port       int
	Peers      []TunnelPeer
}

// TunnelPeer is the configuration of one peer of a Tunnel.
type TunnelPeer struct {
	PublicKey PublicKey
	// Endpoint is the address to send packets to; invalid if only the peer can initiate handshakes.
	Endpoint  netip.AddrPort
	Keepalive time.Duration
	// AllowedIPs are sorted by ComparePrefix.
	AllowedIPs []netip.Prefix
}

// Chain is an iptables chain whose name starts with ChainPrefix. Rules are in the format of iptables-save,
// without the leading -A and the chain's name.
type Chain struct {
	Family Family
	Table  string
	Name   string
	Rules  []string
}

// Jump is a rule that jumps from a built-in chain of iptables (Base) to a chain of the agents.
type Jump struct {
	Family Family
	Table  string
	Base   string
	Chain  string
	// Last is set if the jump is appended to the rules of the built-in chain; otherwise it is inserted before
	// them.
	Last bool
}

// Sysctl is a kernel parameter. The path is relative to /proc/sys.
type Sysctl struct {
	Path  string
	Value string
}

// PublicKey is a WireGuard public key.
type PublicKey [32]byte

// String returns the key in base64.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// PrivateKey is a WireGuard private key. It is printed as a placeholder, so that it never appears in a log.
type PrivateKey [32]byte

// Public returns the public key that belongs to the private key.
func (k PrivateKey) Public() PublicKey {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		return PublicKey{} // cannot happen: any 32 bytes are a valid key
	}
	return PublicKey(key.PublicKey().Bytes())
}

// clamped returns the key with the bits set that RFC 7748 fixes. The kernel reports keys in this form.
func (k PrivateKey) clamped() PrivateKey {
	k[0], k[31] = k[0]&248, k[31]&127|64
	return k
}

const redacted = "(private key)"

// String returns a placeholder.
func (PrivateKey) String() string { return redacted }

// GoString returns a placeholder.
func (PrivateKey) GoString() string { return redacted }

// Format writes a placeholder for every verb.
func (PrivateKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText returns a placeholder.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ComparePrefix orders prefixes by address, then by length.
func ComparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
