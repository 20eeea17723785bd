// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fake implements the interface Kernel in memory, with fault injection.
package fake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Kernel is an in-memory network namespace. It is not safe for concurrent use.
type Kernel struct {
	// Inner is the namespace with the other ends of veth pairs.
	Inner *Kernel
	// Calls counts the calls of all methods of the interface, and Writes those that change something.
	Calls, Writes int
	// Fail is called before each call, with the number of the call from 1. If it returns an error, the call fails
	// without effect.
	Fail func(call int) error
	// FailChains is called before the chains of a family are read, with an empty table, and before the chains of
	// a table are changed. If it returns an error, the call fails.
	FailChains func(f model.Family, table string) error
	// After is called after each call that Fail did not prevent.
	After func(call int)
	// PacketsReceived and PacketsSent are the results of Packets.
	PacketsReceived, PacketsSent uint64
	// PeersAdded counts the peers added to tunnels.
	PeersAdded int
	// Flushed are the translations whose connections were flushed.
	Flushed []kernel.Translation
	// FlushError makes FlushConnections fail.
	FlushError error
	// FailedFlushes counts the calls of FlushConnections that failed.
	FailedFlushes int

	links     map[string]kernel.Link
	addresses map[model.Address]bool
	neighbors map[neighborKey]model.Neighbor
	fdb       map[fdbKey]model.FDBEntry
	routes    map[routeKey]route
	rules     map[rule]bool
	tunnels   map[string]model.Tunnel
	traffic   map[model.PublicKey]kernel.Traffic
	chains    map[chainKey][]string
	bases     map[chainKey][]string // rules by built-in chain
	sysctls   map[string]string
}

type (
	neighborKey struct {
		link string
		addr netip.Addr
	}
	fdbKey struct {
		link string
		mac  model.MAC
	}
	routeKey struct {
		table int
		dst   netip.Prefix
	}
	chainKey struct {
		family      model.Family
		table, name string
	}
	// foreign is set for routes and rules of other programs, which have no model.RouteProtocol.
	route struct {
		model.Route
		foreign bool
	}
	rule struct {
		model.Rule
		foreign bool
	}
)

var _ kernel.Kernel = &Kernel{}

// New returns a namespace without any objects.
func New() *Kernel {
	return &Kernel{
		links:     make(map[string]kernel.Link),
		addresses: make(map[model.Address]bool),
		neighbors: make(map[neighborKey]model.Neighbor),
		fdb:       make(map[fdbKey]model.FDBEntry),
		routes:    make(map[routeKey]route),
		rules:     make(map[rule]bool),
		tunnels:   make(map[string]model.Tunnel),
		traffic:   make(map[model.PublicKey]kernel.Traffic),
		chains:    make(map[chainKey][]string),
		bases:     make(map[chainKey][]string),
		sysctls:   make(map[string]string),
	}
}

// Dump returns a sorted description of all objects, for comparisons.
func (k *Kernel) Dump() string {
	var lines []string
	add := func(what string, v any) { lines = append(lines, fmt.Sprintf("%s %+v\n", what, v)) }
	for _, v := range k.links {
		add("link", v)
	}
	for v := range k.addresses {
		add("address", v)
	}
	for _, v := range k.neighbors {
		add("neighbour", v)
	}
	for _, v := range k.fdb {
		add("forward", v)
	}
	for _, v := range k.routes {
		add("route", v)
	}
	for v := range k.rules {
		add("rule", v)
	}
	for _, v := range k.tunnels {
		add("tunnel", v)
	}
	for at, rules := range k.chains {
		add("chain", fmt.Sprint(at, rules))
	}
	for at, rules := range k.bases {
		if len(rules) > 0 {
			add("base", fmt.Sprint(at, rules))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Recreate deletes a link with all objects on it, and creates it again, as another program may do.
func (k *Kernel) Recreate(name string) {
	link, ok := k.links[name]
	if !ok {
		return
	}
	k.drop(name)
	link.Up = false
	k.links[name] = link
	if link.Kind == model.WireGuard {
		k.tunnels[name] = model.Tunnel{Link: name}
	}
}

// AddForeignRule appends a rule to a built-in chain.
func (k *Kernel) AddForeignRule(f model.Family, table, base, rule string) {
	at := chainKey{f, table, base}
	k.bases[at] = append(k.bases[at], rule)
}

// Flush flushes the named chains of a table, or all of its chains if none is named, as another program may do.
func (k *Kernel) Flush(f model.Family, table string, names ...string) {
	for _, chains := range []map[chainKey][]string{k.chains, k.bases} {
		for at := range chains {
			if at.family == f && at.table == table && (len(names) == 0 || slices.Contains(names, at.name)) {
				chains[at] = nil
			}
		}
	}
}

// AddForeignLink adds a link that the agents do not own.
func (k *Kernel) AddForeignLink(name string) {
	k.links[name] = kernel.Link{Link: model.Link{Name: name, Kind: "bridge", MTU: 1500}, Up: true}
}

// AddForeignRoute adds a route of another program. It may be in a table of the agents.
func (k *Kernel) AddForeignRoute(r model.Route) { k.routes[routeKey{r.Table, r.Dst}] = route{r, true} }

// AddForeignRoutingRule adds a routing rule of another program. It may have a priority of the agents.
func (k *Kernel) AddForeignRoutingRule(r model.Rule) { k.rules[rule{r, true}] = true }

// MoveEndpoint sets the endpoint of a tunnel's peer, as if the peer had sent a packet from there.
func (k *Kernel) MoveEndpoint(link string, key model.PublicKey, endpoint netip.AddrPort) {
	for i, p := range k.tunnels[link].Peers {
		if p.PublicKey == key {
			k.tunnels[link].Peers[i].Endpoint = endpoint
		}
	}
}

// SetTraffic sets the result of Traffic for a peer.
func (k *Kernel) SetTraffic(key model.PublicKey, t kernel.Traffic) { k.traffic[key] = t }

// call counts a call, and executes it unless Fail returns an error.
func (k *Kernel) call(write bool, do func() error) error {
	k.Calls++
	number := k.Calls
	if k.Fail != nil {
		if err := k.Fail(number); err != nil {
			return err
		}
	}
	if write {
		k.Writes++
	}
	err := do()
	if k.After != nil {
		k.After(number)
	}
	return err
}

// callChains does the same as the method call, for a call about the chains of a family, unless FailChains returns an
// error. The table is empty if chains are read.
func (k *Kernel) callChains(write bool, f model.Family, table string, do func() error) error {
	if k.FailChains != nil {
		if err := k.FailChains(f, table); err != nil {
			return err
		}
	}
	return k.call(write, do)
}

// onLink returns a function that calls do, and fails with ENODEV if the link does not exist.
func (k *Kernel) onLink(link string, do func()) func() error {
	return func() error {
		if _, ok := k.links[link]; !ok {
			return fmt.Errorf("link %s does not exist: %w", link, unix.ENODEV)
		}
		do()
		return nil
	}
}

func always(do func()) func() error {
	return func() error { do(); return nil }
}

// drop deletes a link and all objects on it.
func (k *Kernel) drop(name string) {
	delete(k.links, name)
	delete(k.tunnels, name)
	maps.DeleteFunc(k.addresses, func(a model.Address, _ bool) bool { return a.Link == name })
	maps.DeleteFunc(k.neighbors, func(at neighborKey, _ model.Neighbor) bool { return at.link == name })
	maps.DeleteFunc(k.fdb, func(at fdbKey, _ model.FDBEntry) bool { return at.link == name })
	maps.DeleteFunc(k.routes, func(_ routeKey, r route) bool { return r.Link == name })
}
