// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kernel reads and writes the objects of a network namespace, as values of package model. It makes no
// decisions: each method is one operation of the kernel. Read methods return owned objects only, and deleting an
// object that does not exist is no error.
package kernel

import (
	"net/netip"
	"time"

	"liqo.io/federation/netagent/model"
)

// Kernel is one network namespace.
type Kernel interface {
	Links
	Routes
	Rules
	WireGuard
	Tables
	Connections
	Sysctls
}

// Links are interfaces with their addresses, neighbours and FDB entries.
type Links interface {
	// Links returns the links with model.LinkPrefix. The name of a veth's other end is not returned.
	Links() ([]Link, error)
	// AddLink creates a link, which may be down.
	AddLink(model.Link) error
	// SetLink sets the MTU and the MAC of a link, and brings it up.
	SetLink(model.Link) error
	DeleteLink(name string) error

	// Addresses returns the addresses of a link without link-local ones.
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

// Link is the current state of a link.
type Link struct {
	model.Link
	Up bool
}

// Routes are the routes with model.RouteProtocol, in all tables.
type Routes interface {
	Routes() ([]model.Route, error)
	// ReplaceRoute creates a route, or replaces the one with the same table and destination.
	ReplaceRoute(model.Route) error
	DeleteRoute(model.Route) error
}

// Rules are the rules with model.RouteProtocol.
type Rules interface {
	Rules() ([]model.Rule, error)
	AddRule(model.Rule) error
	DeleteRule(model.Rule) error
}

// WireGuard configures the links of kind model.WireGuard.
type WireGuard interface {
	Tunnel(link string) (model.Tunnel, error)
	ChangeTunnel(link string, change TunnelChange) error
	// Traffic returns the state and the counters of a tunnel's peers.
	Traffic(link string) (map[model.PublicKey]Traffic, error)
	// Packets returns the numbers of packets received from and sent into a tunnel.
	Packets(link string) (received, sent uint64, err error)
	// Implementation returns the implementation of a tunnel; empty if it does not exist.
	Implementation(link string) Implementation
}

// Traffic is the state of a WireGuard peer.
type Traffic struct {
	// Endpoint is the source of the last packet received from the peer, or the configured endpoint before that.
	Endpoint netip.AddrPort
	// Handshake is the time of the last handshake; zero: none yet.
	Handshake time.Time
	// Received and Sent are bytes since the peer was added.
	Received, Sent uint64
}

// TunnelChange is a partial change of a tunnel. Peers that it does not mention keep their sessions.
type TunnelChange struct {
	PrivateKey *model.PrivateKey
	Port       *int
	// Remove is applied before Set, so that CIDRs can move between peers.
	Remove []model.PublicKey
	// Set adds peers or replaces their configuration. An invalid endpoint keeps the current one.
	Set []model.TunnelPeer
}

// Tables are the chains of iptables.
type Tables interface {
	// Chains returns the chains with model.ChainPrefix, and the jumps to them from built-in chains.
	Chains(model.Family) ([]model.Chain, []model.Jump, error)
	// ChangeChains changes the chains of one table, in one transaction.
	ChangeChains(f model.Family, table string, change ChainChange) error
	// AddJump adds a jump, unless it exists.
	AddJump(model.Jump) error
	// DeleteJump deletes one occurrence of a jump, if there is one.
	DeleteJump(model.Jump) error
}

// ChainChange is a change of the chains of a table.
type ChainChange struct {
	// Set are created, or flushed and filled.
	Set []model.Chain
	// Delete are the names of chains to which no rule jumps.
	Delete []string
}

// Connections are the entries of conntrack.
type Connections interface {
	// FlushConnections deletes the connections to which one of the translations was applied, so that NAT rules are
	// evaluated again for their next packet.
	FlushConnections(f model.Family, translations []Translation) error
}

// Translation selects the connections whose addresses were translated into To, or kept as To, and that involve
// one of the addresses With.
type Translation struct {
	To netip.Prefix
	// With contains the source or the destination before translation, or the source of replies. Empty selects
	// nothing.
	With []netip.Prefix
}

// Sysctls are kernel parameters below /proc/sys.
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
