// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kernel is how the network agents read and write what a network
// namespace holds, in the values of package model. It decides nothing: each
// method is one thing that the kernel does. Reading methods return what may be
// ours; deleting what is gone already is no error.
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

// Links are interfaces with their addresses, neighbours and forwarding entries.
type Links interface {
	// Links returns those whose names begin with model.LinkPrefix. The other
	// end of a pair is not told.
	Links() ([]Link, error)
	// AddLink makes a link. It need not be up.
	AddLink(model.Link) error
	// SetLink sets the MTU and the MAC of a link, and brings it up.
	SetLink(model.Link) error
	DeleteLink(name string) error

	// Addresses returns those of a link, but for the link-local ones.
	Addresses(link string) ([]model.Address, error)
	AddAddress(model.Address) error
	DeleteAddress(model.Address) error

	// Neighbors returns the permanent ones of a link.
	Neighbors(link string) ([]model.Neighbor, error)
	SetNeighbor(model.Neighbor) error
	DeleteNeighbor(model.Neighbor) error

	FDBEntries(link string) ([]model.FDBEntry, error)
	SetFDBEntry(model.FDBEntry) error
	DeleteFDBEntry(model.FDBEntry) error
}

// Link is a link as it is.
type Link struct {
	model.Link
	Up bool
}

// Routes are those with model.RouteProtocol, in all tables.
type Routes interface {
	Routes() ([]model.Route, error)
	// ReplaceRoute writes a route in the place of the one with its table and
	// destination.
	ReplaceRoute(model.Route) error
	DeleteRoute(model.Route) error
}

// Rules are those with model.RouteProtocol.
type Rules interface {
	Rules() ([]model.Rule, error)
	AddRule(model.Rule) error
	DeleteRule(model.Rule) error
}

// WireGuard configures the links of kind model.WireGuard.
type WireGuard interface {
	Tunnel(link string) (model.Tunnel, error)
	ChangeTunnel(link string, change TunnelChange) error
	// Traffic returns what went through a tunnel, by peer.
	Traffic(link string) (map[model.PublicKey]Traffic, error)
	// Packets returns how many came out of a tunnel, and how many went into it.
	Packets(link string) (received, sent uint64, err error)
	// Implementation tells who does a tunnel's work; empty: there is no tunnel.
	Implementation(link string) Implementation
}

// Traffic is what WireGuard knows of a peer.
type Traffic struct {
	// Endpoint is where the peer was last heard from, or is called.
	Endpoint netip.AddrPort
	// Handshake is when keys were last agreed upon; zero: never.
	Handshake time.Time
	// Received and Sent are bytes since the peer was added.
	Received, Sent uint64
}

// TunnelChange is what becomes different of a tunnel. What it does not name
// stays, sessions included.
type TunnelChange struct {
	PrivateKey *model.PrivateKey
	Port       *int
	// Remove comes before Set, so that CIDRs can move between peers.
	Remove []model.PublicKey
	// Set adds peers, or replaces what is configured of them. An invalid
	// endpoint leaves the one that the peer was last heard from.
	Set []model.TunnelPeer
}

// Tables are the chains of iptables.
type Tables interface {
	// Chains returns the chains with model.ChainPrefix, and the jumps to them
	// from chains that iptables brings.
	Chains(model.Family) ([]model.Chain, []model.Jump, error)
	// ChangeChains changes the chains of one table, all of them or none.
	ChangeChains(f model.Family, table string, change ChainChange) error
	// AddJump adds a jump, unless it exists.
	AddJump(model.Jump) error
	// DeleteJump deletes a jump, once; one that does not exist is no error.
	DeleteJump(model.Jump) error
}

// ChainChange is a change of the chains of a table.
type ChainChange struct {
	// Set are created, or emptied and filled again.
	Set []model.Chain
	// Delete are the names of chains that nothing jumps to.
	Delete []string
}

// Connections are those that the kernel remembers, with what their addresses
// became.
type Connections interface {
	// ForgetConnections forgets those that were translated so: what comes of their
	// next packet is as of the first one.
	ForgetConnections(f model.Family, translations []Translation) error
}

// Translation is what was made of addresses, or was left of them, in connections
// with some others.
type Translation struct {
	To netip.Prefix
	// With is who calls or is called, before any translation, or who answers;
	// nobody if it is empty.
	With []netip.Prefix
}

// Sysctls are settings below /proc/sys.
type Sysctls interface {
	Sysctl(path string) (string, error)
	SetSysctl(model.Sysctl) error
}

// Implementation is who does WireGuard's work.
type Implementation string

// The implementations of WireGuard.
const (
	InKernel  Implementation = "kernel"
	InProcess Implementation = "wireguard-go"
)

func prefixOf(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
