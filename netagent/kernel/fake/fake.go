// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fake is a kernel in memory that fails when it is told to.
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

// Kernel is a network namespace in memory. It is not for several goroutines.
type Kernel struct {
	// Inner is where the other ends of pairs appear.
	Inner *Kernel
	// Calls and Writes count what was asked for.
	Calls, Writes int
	// Fail is asked before every call, by its number from 1; an error fails
	// the call, which changes nothing.
	Fail func(call int) error
	// FailChains is asked before the chains of a family are read, with no table, and
	// before one of its tables is changed.
	FailChains func(f model.Family, table string) error
	// After is told of every call that was done.
	After func(call int)
	// PacketsReceived and PacketsSent are what tunnels have carried.
	PacketsReceived, PacketsSent uint64
	// PeersAdded counts the peers that tunnels were given.
	PeersAdded int
	// Forgotten are the translations whose connections were forgotten.
	Forgotten []kernel.Translation
	// CannotForget is why no connection can be forgotten, if there is a reason.
	CannotForget error
	// NotForgotten counts how often none was.
	NotForgotten int

	links     map[string]kernel.Link
	addresses map[model.Address]bool
	neighbors map[neighborKey]model.Neighbor
	fdb  map[fdbKey]model.FDBEntry
	routes    map[routeKey]route
	rules     map[rule]bool
	tunnels   map[string]model.Tunnel
	traffic   map[model.PublicKey]kernel.Traffic
	chains    map[chainKey][]string
	bases     map[chainKey][]string // rules of the chains that iptables brings
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
	// A route and a rule of routing are ours, or have the protocol of others.
	route struct {
		model.Route
		others bool
	}
	rule struct {
		model.Rule
		others bool
	}
)

var _ kernel.Kernel = &Kernel{}

// New returns an empty namespace.
func New() *Kernel {
	return &Kernel{
		links:     make(map[string]kernel.Link),
		addresses: make(map[model.Address]bool),
		neighbors: make(map[neighborKey]model.Neighbor),
		fdb:  make(map[fdbKey]model.FDBEntry),
		routes:    make(map[routeKey]route),
		rules:     make(map[rule]bool),
		tunnels:   make(map[string]model.Tunnel),
		traffic:   make(map[model.PublicKey]kernel.Traffic),
		chains:    make(map[chainKey][]string),
		bases:     make(map[chainKey][]string),
		sysctls:   make(map[string]string),
	}
}

// Dump writes everything that the namespace holds, in one order.
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

// Recreate makes a link anew, as somebody else would: what was on it is gone.
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

// AddRuleOfOthers appends a rule to a chain that iptables brings.
func (k *Kernel) AddRuleOfOthers(f model.Family, table, base, rule string) {
	at := chainKey{f, table, base}
	k.bases[at] = append(k.bases[at], rule)
}

// Flush empties some chains of a table, as somebody else would: all of them, if
// none is named.
func (k *Kernel) Flush(f model.Family, table string, names ...string) {
	for _, chains := range []map[chainKey][]string{k.chains, k.bases} {
		for at := range chains {
			if at.family == f && at.table == table && (len(names) == 0 || slices.Contains(names, at.name)) {
				chains[at] = nil
			}
		}
	}
}

// AddLinkOfOthers makes a link that is not ours.
func (k *Kernel) AddLinkOfOthers(name string) {
	k.links[name] = kernel.Link{Link: model.Link{Name: name, Kind: "bridge", MTU: 1500}, Up: true}
}

// AddRouteOfOthers makes a route that is not ours, whatever its table.
func (k *Kernel) AddRouteOfOthers(r model.Route) { k.routes[routeKey{r.Table, r.Dst}] = route{r, true} }

// AddRoutingRuleOfOthers makes a rule of routing that is not ours, whatever its
// table.
func (k *Kernel) AddRoutingRuleOfOthers(r model.Rule) { k.rules[rule{r, true}] = true }

// HearFrom sets the endpoint of a tunnel's peer, as a packet from there does.
func (k *Kernel) HearFrom(link string, key model.PublicKey, endpoint netip.AddrPort) {
	for i, p := range k.tunnels[link].Peers {
		if p.PublicKey == key {
			k.tunnels[link].Peers[i].Endpoint = endpoint
		}
	}
}

// Carry sets what a tunnel has carried for a peer.
func (k *Kernel) Carry(key model.PublicKey, t kernel.Traffic) { k.traffic[key] = t }

// call counts a call, and does it unless it is to fail.
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

// callChains is a call about the chains of a family.
func (k *Kernel) callChains(write bool, f model.Family, table string, do func() error) error {
	if k.FailChains != nil {
		if err := k.FailChains(f, table); err != nil {
			return err
		}
	}
	return k.call(write, do)
}

// onLink does what needs a link.
func (k *Kernel) onLink(link string, do func()) func() error {
	return func() error {
		if _, ok := k.links[link]; !ok {
			return fmt.Errorf("there is no link %s: %w", link, unix.ENODEV)
		}
		do()
		return nil
	}
}

func always(do func()) func() error {
	return func() error { do(); return nil }
}

// drop removes a link and what hangs on it.
func (k *Kernel) drop(name string) {
	delete(k.links, name)
	delete(k.tunnels, name)
	maps.DeleteFunc(k.addresses, func(a model.Address, _ bool) bool { return a.Link == name })
	maps.DeleteFunc(k.neighbors, func(at neighborKey, _ model.Neighbor) bool { return at.link == name })
	maps.DeleteFunc(k.fdb, func(at fdbKey, _ model.FDBEntry) bool { return at.link == name })
	maps.DeleteFunc(k.routes, func(_ routeKey, r route) bool { return r.Link == name })
}
