// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Links returns the links that the agents own.
func (k *Kernel) Links() (links []kernel.Link, err error) {
	err = k.call(false, always(func() {
		for name, l := range k.links {
			if strings.HasPrefix(name, model.LinkPrefix) {
				l.Peer, l.PeerMAC = "", model.MAC{}
				links = append(links, l)
			}
		}
	}))
	return links, err
}

// AddLink creates a link. For a veth pair it creates both ends.
func (k *Kernel) AddLink(l model.Link) error {
	return k.call(true, func() error {
		if _, ok := k.links[l.Name]; ok {
			return fmt.Errorf("creating link %s: %w", l.Name, unix.EEXIST)
		}
		switch l.Kind {
		case model.Veth:
			k.Inner.links[l.Peer] = kernel.Link{Link: model.Link{Name: l.Peer, Kind: model.VethEnd, MTU: l.MTU, MAC: l.PeerMAC}}
		case model.VethEnd:
			return fmt.Errorf("creating link %s: a %s is created together with its veth", l.Name, l.Kind)
		case model.WireGuard:
			k.tunnels[l.Name] = model.Tunnel{Link: l.Name}
		}
		k.links[l.Name] = kernel.Link{Link: l}
		return nil
	})
}

// SetLink sets the MTU and the MAC of a link, and brings it up.
func (k *Kernel) SetLink(l model.Link) error {
	return k.call(true, k.onLink(l.Name, func() { k.links[l.Name] = kernel.Link{Link: l, Up: true} }))
}

// DeleteLink deletes a link. For a veth pair it deletes both ends.
func (k *Kernel) DeleteLink(name string) error {
	return k.call(true, always(func() {
		if k.links[name].Kind == model.Veth {
			k.Inner.drop(k.links[name].Peer)
		}
		k.drop(name)
	}))
}

// Addresses returns the addresses of a link.
func (k *Kernel) Addresses(link string) (addresses []model.Address, err error) {
	err = k.call(false, k.onLink(link, func() {
		for a := range k.addresses {
			if a.Link == link {
				addresses = append(addresses, a)
			}
		}
	}))
	return addresses, err
}

// AddAddress adds an address.
func (k *Kernel) AddAddress(a model.Address) error {
	return k.call(true, k.onLink(a.Link, func() { k.addresses[a] = true }))
}

// DeleteAddress deletes an address.
func (k *Kernel) DeleteAddress(a model.Address) error {
	return k.call(true, always(func() { delete(k.addresses, a) }))
}

// Neighbors returns the neighbours of a link.
func (k *Kernel) Neighbors(link string) (neighbors []model.Neighbor, err error) {
	err = k.call(false, k.onLink(link, func() {
		for at, n := range k.neighbors {
			if at.link == link {
				neighbors = append(neighbors, n)
			}
		}
	}))
	return neighbors, err
}

// SetNeighbor creates or replaces a neighbour.
func (k *Kernel) SetNeighbor(n model.Neighbor) error {
	return k.call(true, k.onLink(n.Link, func() { k.neighbors[neighborKey{n.Link, n.Addr}] = n }))
}

// DeleteNeighbor deletes a neighbour.
func (k *Kernel) DeleteNeighbor(n model.Neighbor) error {
	return k.call(true, always(func() { delete(k.neighbors, neighborKey{n.Link, n.Addr}) }))
}

// FDBEntries returns the FDB entries of a link.
func (k *Kernel) FDBEntries(link string) (entries []model.FDBEntry, err error) {
	err = k.call(false, k.onLink(link, func() {
		for at, f := range k.fdb {
			if at.link == link {
				entries = append(entries, f)
			}
		}
	}))
	return entries, err
}

// SetFDBEntry creates or replaces an FDB entry.
func (k *Kernel) SetFDBEntry(f model.FDBEntry) error {
	return k.call(true, k.onLink(f.Link, func() { k.fdb[fdbKey{f.Link, f.MAC}] = f }))
}

// DeleteFDBEntry deletes an FDB entry.
func (k *Kernel) DeleteFDBEntry(f model.FDBEntry) error {
	return k.call(true, always(func() { delete(k.fdb, fdbKey{f.Link, f.MAC}) }))
}

// Routes returns the routes that the agents own.
func (k *Kernel) Routes() (routes []model.Route, err error) {
	err = k.call(false, always(func() {
		for _, r := range k.routes {
			if !r.foreign {
				routes = append(routes, r.Route)
			}
		}
	}))
	return routes, err
}

// ReplaceRoute creates a route, or replaces the route with the same table and destination.
func (k *Kernel) ReplaceRoute(r model.Route) error {
	return k.call(true, k.onLink(r.Link, func() { k.routes[routeKey{r.Table, r.Dst}] = route{Route: r} }))
}

// DeleteRoute deletes a route, unless another program owns it.
func (k *Kernel) DeleteRoute(r model.Route) error {
	return k.call(true, always(func() {
		if at := (routeKey{r.Table, r.Dst}); !k.routes[at].foreign {
			delete(k.routes, at)
		}
	}))
}

// Rules returns the routing rules that the agents own.
func (k *Kernel) Rules() (rules []model.Rule, err error) {
	err = k.call(false, always(func() {
		for r := range k.rules {
			if !r.foreign {
				rules = append(rules, r.Rule)
			}
		}
	}))
	return rules, err
}

// AddRule adds a routing rule.
func (k *Kernel) AddRule(r model.Rule) error {
	return k.call(true, always(func() { k.rules[rule{Rule: r}] = true }))
}

// DeleteRule deletes a routing rule.
func (k *Kernel) DeleteRule(r model.Rule) error {
	return k.call(true, always(func() { delete(k.rules, rule{Rule: r}) }))
}

// Tunnel returns the configuration of a tunnel.
func (k *Kernel) Tunnel(link string) (t model.Tunnel, err error) {
	err = k.call(false, k.onLink(link, func() {
		t = k.tunnels[link]
		t.Peers = slices.Clone(t.Peers)
	}))
	return t, err
}

// ChangeTunnel changes the configuration of a tunnel.
func (k *Kernel) ChangeTunnel(link string, change kernel.TunnelChange) error {
	return k.call(true, k.onLink(link, func() {
		t := k.tunnels[link]
		if change.PrivateKey != nil {
			t.PrivateKey = *change.PrivateKey
		}
		if change.Port != nil {
			t.Port = *change.Port
		}
		t.Peers = slices.DeleteFunc(
			slices.Clone(t.Peers),
			func(p model.TunnelPeer) bool { return slices.Contains(change.Remove, p.PublicKey) },
		)
		for _, p := range change.Set {
			at := slices.IndexFunc(t.Peers, func(other model.TunnelPeer) bool { return other.PublicKey == p.PublicKey })
			if at < 0 {
				t.Peers = append(t.Peers, p)
				k.PeersAdded++
				continue
			}
			if !p.Endpoint.IsValid() {
				p.Endpoint = t.Peers[at].Endpoint
			}
			t.Peers[at] = p
		}
		slices.SortFunc(t.Peers, func(a, b model.TunnelPeer) int { return bytes.Compare(a.PublicKey[:], b.PublicKey[:]) })
		k.tunnels[link] = t
	}))
}

// Traffic returns the values set by SetTraffic.
func (k *Kernel) Traffic(link string) (all map[model.PublicKey]kernel.Traffic, err error) {
	err = k.call(false, k.onLink(link, func() {
		all = make(map[model.PublicKey]kernel.Traffic)
		for _, p := range k.tunnels[link].Peers {
			t := k.traffic[p.PublicKey]
			t.Endpoint = p.Endpoint
			all[p.PublicKey] = t
		}
	}))
	return all, err
}

// Packets returns PacketsReceived and PacketsSent.
func (k *Kernel) Packets(link string) (received, sent uint64, err error) {
	err = k.call(false, k.onLink(link, func() { received, sent = k.PacketsReceived, k.PacketsSent }))
	return received, sent, err
}

// Implementation returns InKernel for a tunnel that exists.
func (k *Kernel) Implementation(link string) kernel.Implementation {
	if _, ok := k.links[link]; !ok {
		return ""
	}
	return kernel.InKernel
}

// Chains returns the chains that the agents own, and the jumps to them.
func (k *Kernel) Chains(f model.Family) (chains []model.Chain, jumps []model.Jump, err error) {
	err = k.callChains(false, f, "", always(func() {
		for at, rules := range k.chains {
			if at.family == f {
				chains = append(chains, model.Chain{Family: f, Table: at.table, Name: at.name, Rules: slices.Clone(rules)})
			}
		}
		for at, rules := range k.bases {
			for _, rule := range rules {
				if target, ok := strings.CutPrefix(rule, "-j "+model.ChainPrefix); ok && at.family == f {
					jumps = append(jumps, model.Jump{Family: f, Table: at.table, Base: at.name, Chain: model.ChainPrefix + target})
				}
			}
		}
	}))
	return chains, jumps, err
}

// ChangeChains changes the chains of one table. Like iptables, it does not delete a chain that a rule jumps to.
func (k *Kernel) ChangeChains(f model.Family, table string, change kernel.ChainChange) error {
	return k.callChains(true, f, table, func() error {
		chains := maps.Clone(k.chains)
		for _, c := range change.Set {
			chains[chainKey{f, table, c.Name}] = slices.Clone(c.Rules)
		}
		for _, name := range change.Delete {
			delete(chains, chainKey{f, table, name})
		}
		for _, all := range []map[chainKey][]string{chains, k.bases} {
			for at, rules := range all {
				for _, rule := range rules {
					_, target, _ := strings.Cut(rule, "-j "+model.ChainPrefix)
					if _, ok := chains[chainKey{at.family, at.table, model.ChainPrefix + target}]; target != "" && !ok {
						return fmt.Errorf("%s jumps to %s, which does not exist", at.name, target)
					}
				}
			}
		}
		k.chains = chains
		return nil
	})
}

// AddJump adds a jump, unless it exists. Like iptables, it fails if the chain does not exist.
func (k *Kernel) AddJump(j model.Jump) error {
	return k.callChains(true, j.Family, j.Table, func() error {
		at, rule := chainKey{j.Family, j.Table, j.Base}, "-j "+j.Chain
		if _, ok := k.chains[chainKey{j.Family, j.Table, j.Chain}]; !ok {
			return fmt.Errorf("%s: no such chain", j.Chain)
		}
		switch {
		case slices.Contains(k.bases[at], rule):
		case j.Last:
			k.bases[at] = append(slices.Clone(k.bases[at]), rule)
		default:
			k.bases[at] = append([]string{rule}, k.bases[at]...)
		}
		return nil
	})
}

// DeleteJump deletes one occurrence of a jump.
func (k *Kernel) DeleteJump(j model.Jump) error {
	return k.callChains(true, j.Family, j.Table, always(func() {
		at := chainKey{j.Family, j.Table, j.Base}
		if i := slices.Index(k.bases[at], "-j "+j.Chain); i >= 0 {
			k.bases[at] = slices.Delete(slices.Clone(k.bases[at]), i, i+1)
		}
	}))
}

// FlushConnections adds translations to Flushed. If FlushError is set, it returns this error and adds nothing.
func (k *Kernel) FlushConnections(_ model.Family, translations []kernel.Translation) error {
	err := k.FlushError
	if err == nil {
		err = k.call(true, always(func() { k.Flushed = append(k.Flushed, translations...) }))
	}
	if err != nil {
		k.FailedFlushes++
	}
	return err
}

// Sysctl returns the value of a kernel parameter.
func (k *Kernel) Sysctl(path string) (value string, err error) {
	err = k.call(false, always(func() { value = k.sysctls[path] }))
	return value, err
}

// SetSysctl sets a kernel parameter.
func (k *Kernel) SetSysctl(s model.Sysctl) error {
	return k.call(true, always(func() { k.sysctls[s.Path] = s.Value }))
}
