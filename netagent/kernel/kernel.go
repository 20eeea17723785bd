// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kernel reads and writes the objects of a network namespace as values of package model. Each method is
// one operation of the kernel. Methods that read return only objects that the agents own, see package model.
// Deleting an object that does not exist is no error.
package kernel

import (
	"net/netip"
	"time"

	"liqo.io/federation/netagent/model"
)

// Kernel is the set of operations on one network namespace.
type Kernel interface {
	Links
	Routes
	Rules
	WireGuard
	Tables
	Connections
	Sysctls
}

// Links reads and writes network interfaces, with their addresses, neighbours and FDB entries.
type Links interface {
	// Links returns the links whose name starts with model.LinkPrefix. The fields Peer and PeerMAC are empty.
	Links() ([]Link, error)
	// AddLink creates a link. The link may be down until SetLink.
	AddLink(model.Link) error
	// SetLink sets the MTU and the MAC of a link, and brings it up.
	SetLink(model.Link) error
	DeleteLink(name string) error

	// Addresses returns the addresses of a link, except link-local addresses.
	Addresses(link string) ([]model.Address, error)
	AddAddress(model.Address) error
	DeleteAddress(model.Address) error

	// Neighbors returns the permanent neighbours of a link.
	Neighbors(link string) ([]model.Neighbor, error)
	SetNeighbor(model.Neighbor) error
	DeleteNeighbor(model.Neighbor) error

	FDBEntries(link string) ([]model.FDBEntry, error)
	SetFDBEntry(model.FDBEntry) error
	DeleteFDBEntry(model.FDBEntry) error
}

// Link is a link as the kernel has it.
type Link struct {
	model.Link
	Up bool
}

// Routes reads and writes the routes with model.RouteProtocol, in all tables.
type Routes interface {
	Routes() ([]model.Route, error)
	// ReplaceRoute creates a route, or replaces the route with the same table and destination.
	ReplaceRoute(model.Route) error
	DeleteRoute(model.Route) error
}

// Rules reads and writes the routing rules with model.RouteProtocol.
type Rules interface {
	Rules() ([]model.Rule, error)
	AddRule(model.Rule) error
	DeleteRule(model.Rule) error
}

// WireGuard configures the links of kind model.WireGuard.
type WireGuard interface {
	Tunnel(link string) (model.Tunnel, error)
	ChangeTunnel(link string, change TunnelChange) error
	// Traffic returns the state and the counters of all peers of a tunnel.
	Traffic(link string) (map[model.PublicKey]Traffic, error)
	// Packets returns the numbers of packets received through a tunnel and sent through it.
	Packets(link string) (received, sent uint64, err error)
	// Implementation returns the implementation that runs a tunnel; empty if the tunnel does not exist.
	Implementation(link string) Implementation
}

// Traffic is the state of a WireGuard peer.
type Traffic struct {
	// Endpoint is the source of the last packet from the peer, or the configured endpoint if there was none.
	Endpoint netip.AddrPort
	// Handshake is the time of the last handshake; zero if there was none.
	Handshake time.Time
	// Received and Sent are bytes since the peer was added.
	Received, Sent uint64
}

// TunnelChange is a partial change of a tunnel. Peers that are neither in Remove nor in Set keep their sessions.
type TunnelChange struct {
	PrivateKey *model.PrivateKey
	Port       *int
	// Remove is applied before Set, so that a CIDR can move from one peer to another.
	Remove []model.PublicKey
	// Set adds peers, or replaces their configuration. If the endpoint of a peer in Set is invalid, this peer keeps its
	// current endpoint.
	Set []model.TunnelPeer
}

// Tables reads and writes chains of iptables.
type Tables interface {
	// Chains returns the chains whose name starts with model.ChainPrefix, and the jumps to them from built-in
	// chains.
	Chains(model.Family) ([]model.Chain, []model.Jump, error)
	// ChangeChains changes the chains of one table, in one transaction.
	ChangeChains(f model.Family, table string, change ChainChange) error
	// AddJump adds a jump, unless it exists.
	AddJump(model.Jump) error
	// DeleteJump deletes one occurrence of a jump. It is no error if there is none.
	DeleteJump(model.Jump) error
}

// ChainChange is a change of the chains of a table.
type ChainChange struct {
	// Set are the chains to create, or to replace.
	Set []model.Chain
	// Delete are the names of the chains to delete. No rule may jump to them.
	Delete []string
}

// Connections deletes entries of conntrack.
type Connections interface {
	// FlushConnections deletes the connections to which one of the translations was applied, so that the kernel
	// evaluates the NAT rules again for their next packet.
	FlushConnections(f model.Family, translations []Translation) error
}

// Translation selects the connections with a source or destination that is in To after NAT, even if NAT did not change
// it, and with an address in With.
type Translation struct {
	To netip.Prefix
	// With are the ranges that contain the source or the destination before translation, or the source of
	// replies. An empty list selects nothing.
	With []netip.Prefix
}

// Sysctls reads and writes kernel parameters below /proc/sys.
type Sysctls interface {
	Sysctl(path string) (string, error)
	SetSysctl(model.Sysctl) error
}

// Implementation is an implementation of WireGuard.
type Implementation string

// The implementations of WireGuard.
const (
	InKernel  Implementation = "kernel"
	InProcess Implementation = "wireguard-go"
)

func prefixOf(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
