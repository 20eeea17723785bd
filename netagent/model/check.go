// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Bounds of what a peer may make us hold.
const (
	maxPeerCIDRs    = 64
	maxPeerMappings = 10000
	// maxPorts is how many ports one mapping is bounded to: fewer than a chain has
	// rules before it becomes a tree by the bits of addresses.
	maxPorts = maxWays / 2
	minMTU   = 1280
	maxMTU   = 65535
)

// protocols are those that have ports.
var protocols = []string{"sctp", "tcp", "udp"}

// forbidden are ranges that are nobody's to announce.
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/127"),
	netip.MustParsePrefix("::ffff:0:0/96"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
	controlPrefix,
}

// check tells what is wrong with the cluster's own values.
func (in Input) check() error {
	var errs []error
	if in.MTU < minMTU || in.MTU > maxMTU {
		errs = append(errs, fmt.Errorf("the MTU of the nodes' network is %d, which is not between %d and %d", in.MTU, minMTU, maxMTU))
	}
	if in.Port < 1 || in.Port > 65535 {
		errs = append(errs, fmt.Errorf("the gateway's port %d is not between 1 and 65535", in.Port))
	}
	if len(in.PodCIDRs) == 0 {
		errs = append(errs, errors.New("the cluster has no pod CIDRs: the conditions of ClusterInfo local state why"))
	}
	for _, p := range slices.Concat(in.PodCIDRs, in.Virtual, in.Reserved) {
		if err := checkPrefix(p); err != nil {
			errs = append(errs, fmt.Errorf("of the cluster's own ranges: %w", err))
		}
	}
	names := make(map[string]bool)
	for _, n := range in.Nodes {
		if names[n.Name] {
			errs = append(errs, fmt.Errorf("two nodes are called %q", n.Name))
		}
		names[n.Name] = true
		for _, p := range n.PodCIDRs {
			if err := checkPrefix(p); err != nil {
				errs = append(errs, fmt.Errorf("of node %s: %w", n.Name, err))
			}
		}
		if len(n.Addresses) == 0 {
			errs = append(errs, fmt.Errorf("node %s has no address", n.Name))
		}
		for _, a := range slices.Concat(n.Addresses, n.External) {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				errs = append(errs, fmt.Errorf("node %s has the address %q, which is not a plain one", n.Name, a))
			}
		}
	}
	for _, name := range append([]string{in.Node, in.Active}, in.Gateways...) {
		if !names[name] {
			errs = append(errs, fmt.Errorf("node %q is not among the nodes", name))
		}
	}
	if !slices.Contains(in.Gateways, in.Active) {
		errs = append(errs, fmt.Errorf("node %q is active and not among the gateways", in.Active))
	}
	return errors.Join(errs...)
}

// checkTunnel tells what is wrong with what is the gateway's own.
func (in Input) checkTunnel() error {
	if in.PrivateKey == (PrivateKey{}) {
		return errors.New("the gateway has no private key")
	}
	return nil
}

// checkPrefix tells why a range cannot be anybody's.
func checkPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("a CIDR is malformed")
	case p != p.Masked():
		return fmt.Errorf("%s has bits set beyond its length; %s is meant, perhaps", p, p.Masked())
	case p.Bits() == 0:
		return fmt.Errorf("%s is the default route", p)
	}
	if i := slices.IndexFunc(forbidden, p.Overlaps); i >= 0 {
		return fmt.Errorf("%s overlaps %s, which is nobody's to announce", p, forbidden[i])
	}
	return nil
}

// accepted returns the peers that can be served, in the order of their cluster
// ids, and why the others cannot. Of two that exclude each other the first one
// in this order is served.
func (in Input) accepted() ([]Peer, []Refusal) {
	peers := slices.Clone(in.Peers)
	slices.SortStableFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	var served []Peer
	var refused []Refusal
	taken := newTaken(in)
	for _, p := range peers {
		err := checkPeer(p)
		if err == nil {
			err = taken.outside(p)
		}
		if err == nil {
			p.Remote, err = answerable(p)
		}
		if err == nil {
			err = taken.take(p)
		}
		if err != nil {
			refused = append(refused, Refusal{ClusterID: p.ClusterID, Reason: err.Error()})
			continue
		}
		served = append(served, sorted(p))
	}
	return served, refused
}

// answerable are a peer's CIDRs of the families in which it sees something of
// ours: of two clusters, one has IPv6 beside IPv4, perhaps, and the other has not.
func answerable(p Peer) ([]netip.Prefix, error) {
	var cidrs []netip.Prefix
	for _, r := range p.Remote {
		if p.representative(familyOfPrefix(r)).IsValid() {
			cidrs = append(cidrs, r)
		}
	}
	if len(cidrs) == 0 && len(p.Remote) > 0 {
		f := familyOfPrefix(p.Remote[0])
		return nil, fmt.Errorf("it sees nothing of ours that is %s, as its %s is", f, p.Remote[0])
	}
	return cidrs, nil
}

// sorted returns a peer with its lists in one order. Local keeps its own: the
// first one of a family has a meaning.
func sorted(p Peer) Peer {
	p.Remote = slices.Clone(p.Remote)
	slices.SortFunc(p.Remote, ComparePrefix)
	p.Mappings = slices.Clone(p.Mappings)
	slices.SortFunc(p.Mappings, func(a, b Mapping) int { return a.Seen.Compare(b.Seen) })
	for i := range p.Mappings {
		m := &p.Mappings[i]
		m.Ports = slices.Clone(m.Ports)
		slices.SortFunc(m.Ports, func(a, b Port) int {
			return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
		})
	}
	return p
}

// calls are how many different things a peer may call by its mappings.
func calls(mappings []Mapping) int {
	all := 0
	for _, m := range mappings {
		all += max(len(m.Ports), 1)
	}
	return all
}

// checkPeer tells what is wrong with a peer by itself.
func checkPeer(p Peer) error {
	switch {
	case p.ClusterID == "":
		return errors.New("it has no cluster id")
	case p.PublicKey == PublicKey{}:
		return errors.New("it has no public key")
	case p.MTU != 0 && (p.MTU < minMTU || p.MTU > maxMTU):
		return fmt.Errorf("its MTU %d is not between %d and %d", p.MTU, minMTU, maxMTU)
	case p.PathMTU != 0 && (p.PathMTU < minMTU || p.PathMTU > maxMTU):
		return fmt.Errorf("the MTU of the way to it, %d, is not between %d and %d", p.PathMTU, minMTU, maxMTU)
	case len(p.Remote) == 0 && !p.Control.wanted():
		return errors.New("it has no CIDRs")
	case len(p.Remote) > maxPeerCIDRs || len(p.Local) > maxPeerCIDRs:
		return fmt.Errorf("it has more than %d CIDRs", maxPeerCIDRs)
	case calls(p.Mappings) > maxPeerMappings:
		return fmt.Errorf("it has more than %d mappings, or ports of mappings", maxPeerMappings)
	}
	for _, r := range p.Remote {
		if err := checkPrefix(r); err != nil {
			return err
		}
	}
	if e := p.Endpoint; e != (netip.AddrPort{}) {
		a := e.Addr()
		if !a.IsValid() || a.Zone() != "" || e.Port() == 0 || slices.ContainsFunc(forbidden, func(f netip.Prefix) bool { return f.Contains(a) }) {
			return fmt.Errorf("its endpoint %s cannot be called", e)
		}
		if slices.ContainsFunc(p.Remote, func(r netip.Prefix) bool { return r.Contains(a) }) {
			return fmt.Errorf("its endpoint %s lies within its own CIDRs, behind the tunnel", e)
		}
	}
	return checkLocal(p)
}

// checkLocal tells what is wrong with what a peer sees of us.
func checkLocal(p Peer) error {
	for _, r := range p.Local {
		for _, prefix := range []netip.Prefix{r.CIDR, r.Mapped} {
			if err := checkPrefix(prefix); err != nil {
				return err
			}
		}
		if err := r.Validate(); err != nil {
			return err
		}
	}
	for i, a := range p.Local {
		for _, b := range p.Local[:i] {
			if a.Mapped.Overlaps(b.Mapped) || a.CIDR.Overlaps(b.CIDR) {
				return fmt.Errorf("our %s, seen as %s, overlaps %s, seen as %s", a.CIDR, a.Mapped, b.CIDR, b.Mapped)
			}
		}
	}
	seen := make(map[netip.Addr]bool)
	for _, m := range p.Mappings {
		for _, a := range []netip.Addr{m.Seen, m.Target} {
			if !a.IsValid() || a.Zone() != "" || a.Is4In6() || checkPrefix(host(a)) != nil {
				return fmt.Errorf("the mapping of %s to %s is not between addresses of hosts", m.Seen, m.Target)
			}
		}
		if m.Seen.Is4() != m.Target.Is4() {
			return fmt.Errorf("the mapping of %s to %s crosses address families", m.Seen, m.Target)
		}
		if seen[m.Seen] {
			return fmt.Errorf("the address %s is mapped twice", m.Seen)
		}
		seen[m.Seen] = true
		if len(m.Ports) > maxPorts {
			return fmt.Errorf("the mapping of %s has more than %d ports", m.Seen, maxPorts)
		}
		for _, port := range m.Ports {
			if !slices.Contains(protocols, port.Protocol) || port.Number == 0 {
				return fmt.Errorf("the mapping of %s has a port %d of %q, which is none", m.Seen, port.Number, port.Protocol)
			}
		}
	}
	return nil
}

// taken is what no further peer may claim.
type taken struct {
	own      ranges
	remote   ranges
	within   []netip.Prefix        // ranges of ours that no gateway of a peer is in
	nodes    map[netip.Addr]string // our nodes, by their addresses
	clusters map[string]bool
	keys     map[PublicKey]string
}

func newTaken(in Input) *taken {
	t := &taken{
		within: slices.Concat(in.PodCIDRs, in.Virtual), nodes: make(map[netip.Addr]string),
		clusters: make(map[string]bool), keys: make(map[PublicKey]string),
	}
	type block struct {
		prefix netip.Prefix
		whose  string
	}
	var own []block
	for _, p := range slices.Concat(in.PodCIDRs, in.Virtual, in.Reserved) {
		own = append(own, block{p, "ourselves"})
	}
	for _, n := range in.Nodes {
		for _, p := range n.PodCIDRs {
			own = append(own, block{p, "our node " + n.Name})
		}
		for _, a := range slices.Concat(n.Addresses, n.External) {
			own = append(own, block{host(a), "our node " + n.Name})
			t.nodes[a] = n.Name
		}
	}
	slices.SortFunc(own, func(a, b block) int { return cmp.Or(ComparePrefix(a.prefix, b.prefix), cmp.Compare(a.whose, b.whose)) })
	for _, r := range own {
		// In this order what lies within another one comes after it.
		if last := len(t.own.prefixes) - 1; last < 0 || !t.own.prefixes[last].Overlaps(r.prefix) {
			t.own.prefixes, t.own.owners = append(t.own.prefixes, r.prefix), append(t.own.owners, r.whose)
		}
	}
	return t
}

// outside tells why a peer cannot be called where it wants to be: packets of our
// gateway, to a port that the peer has chosen, would go to something of ours. What
// else is reserved may well be a network that the peer's nodes are on, too.
func (t *taken) outside(p Peer) error {
	if !p.Endpoint.IsValid() || p.EndpointLearned {
		return nil
	}
	a := p.Endpoint.Addr()
	if name, ours := t.nodes[a]; ours {
		return fmt.Errorf("its endpoint %s is our node %s", p.Endpoint, name)
	}
	if i := slices.IndexFunc(t.within, func(r netip.Prefix) bool { return r.Contains(a) }); i >= 0 {
		return fmt.Errorf("its endpoint %s lies within our own %s", p.Endpoint, t.within[i])
	}
	return nil
}

// take notes what a peer has, all of it or nothing.
func (t *taken) take(p Peer) error {
	if t.clusters[p.ClusterID] {
		return errors.New("another peer has its cluster id")
	}
	if other, ok := t.keys[p.PublicKey]; ok {
		return fmt.Errorf("cluster %s has its public key", other)
	}
	for i, r := range p.Remote {
		for _, other := range p.Remote[:i] {
			if r.Overlaps(other) {
				return fmt.Errorf("its %s overlaps its %s", r, other)
			}
		}
		if own, whose, found := t.own.overlapping(r); found {
			return fmt.Errorf("its %s overlaps %s of %s", r, own, whose)
		}
		if other, id, found := t.remote.overlapping(r); found {
			return fmt.Errorf("its %s overlaps %s of cluster %s", r, other, id)
		}
	}
	t.clusters[p.ClusterID], t.keys[p.PublicKey] = true, p.ClusterID
	for _, r := range p.Remote {
		t.remote.add(r, p.ClusterID)
	}
	return nil
}

// ranges holds disjoint prefixes in order, so that an overlap is found without
// looking at all of them.
type ranges struct {
	prefixes []netip.Prefix
	owners   []string
}

// overlapping returns one of the held prefixes that overlaps another one.
// Prefixes either nest or are disjoint: a prefix that overlaps begins at or
// before the last address, and only the one before and the one at the place
// where p belongs can.
func (r *ranges) overlapping(p netip.Prefix) (netip.Prefix, string, bool) {
	at, _ := slices.BinarySearchFunc(r.prefixes, p, ComparePrefix)
	for i := max(at-1, 0); i <= at && i < len(r.prefixes); i++ {
		if r.prefixes[i].Overlaps(p) {
			return r.prefixes[i], r.owners[i], true
		}
	}
	return netip.Prefix{}, "", false
}

func (r *ranges) add(p netip.Prefix, owner string) {
	at, _ := slices.BinarySearchFunc(r.prefixes, p, ComparePrefix)
	r.prefixes = slices.Insert(r.prefixes, at, p)
	r.owners = slices.Insert(r.owners, at, owner)
}
