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

// Limits for one peer, which bound the state that it can cause on a node.
const (
	maxPeerCIDRs    = 64
	maxPeerMappings = 10000
	maxReachable    = 10000
	// maxPorts bounds the ports of one mapping. It must be less than maxRules, as all rules for one address are in one
	// chain.
	maxPorts = maxRules / 2
	minMTU   = 1280
	maxMTU   = 65535
)

// protocols are the supported protocols with ports, in the names of iptables.
var protocols = []string{"sctp", "tcp", "udp"}

// forbidden are the ranges that no peer may announce.
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

// check returns an error if the values of the local cluster are invalid.
func (in Input) check() error {
	var errs []error
	if in.MTU < minMTU || in.MTU > maxMTU {
		errs = append(
			errs,
			fmt.Errorf("the MTU of the nodes' network is %d, which is not between %d and %d", in.MTU, minMTU, maxMTU),
		)
	}
	if in.Port < 1 || in.Port > 65535 {
		errs = append(errs, fmt.Errorf("the UDP port %d of the gateways is not between 1 and 65535", in.Port))
	}
	if len(in.PodCIDRs) == 0 {
		errs = append(errs, errors.New("the cluster has no pod CIDRs: see the conditions of ClusterInfo local"))
	}
	for _, p := range slices.Concat(in.PodCIDRs, in.Virtual, in.Reserved) {
		if err := checkPrefix(p); err != nil {
			errs = append(errs, fmt.Errorf("ranges of the cluster: %w", err))
		}
	}
	names := make(map[string]bool)
	for _, n := range in.Nodes {
		if names[n.Name] {
			errs = append(errs, fmt.Errorf("two nodes have the name %q", n.Name))
		}
		names[n.Name] = true
		for _, p := range n.PodCIDRs {
			if err := checkPrefix(p); err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
			}
		}
		if len(n.Addresses) == 0 {
			errs = append(errs, fmt.Errorf("node %s has no address", n.Name))
		}
		for _, a := range slices.Concat(n.Addresses, n.External) {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				errs = append(errs, fmt.Errorf("node %s has the invalid address %q", n.Name, a))
			}
		}
	}
	for _, name := range append([]string{in.Node, in.Active}, in.Gateways...) {
		if !names[name] {
			errs = append(errs, fmt.Errorf(
				"node %q, which is this node or the node of a gateway, is not among the nodes of the cluster", name))
		}
	}
	if !slices.Contains(in.Gateways, in.Active) {
		errs = append(errs, fmt.Errorf("the active node %q is not among the gateways", in.Active))
	}
	return errors.Join(errs...)
}

// checkTunnel returns an error if the private key of the gateway is missing.
func (in Input) checkTunnel() error {
	if in.PrivateKey == (PrivateKey{}) {
		return errors.New("the gateway has no private key")
	}
	return nil
}

// checkPrefix returns an error if p is malformed, has bits set beyond its prefix length, is a default route or overlaps
// a forbidden range.
func checkPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("a CIDR is malformed")
	case p != p.Masked():
		return fmt.Errorf("%s has bits set beyond its prefix length: use %s", p, p.Masked())
	case p.Bits() == 0:
		return fmt.Errorf("%s is the default route", p)
	}
	if i := slices.IndexFunc(forbidden, p.Overlaps); i >= 0 {
		return fmt.Errorf("%s overlaps %s, which no cluster may announce", p, forbidden[i])
	}
	return nil
}

// accepted returns the peers that can be served, sorted by cluster ID, and the refusals of all other peers. If two
// peers conflict, for example because their CIDRs overlap, the first one in this order is served.
func (in Input) accepted() ([]Peer, []Refusal) {
	peers := slices.Clone(in.Peers)
	slices.SortStableFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	var served []Peer
	var refused []Refusal
	claims := newClaims(in)
	for _, p := range peers {
		err := checkPeer(p)
		if err == nil {
			err = claims.checkEndpoint(p)
		}
		if err == nil {
			p.Remote, err = reachableCIDRs(p)
		}
		if err == nil {
			err = claims.claim(p)
		}
		if err != nil {
			refused = append(refused, Refusal{ClusterID: p.ClusterID, Reason: err.Error()})
			continue
		}
		served = append(served, sorted(p))
	}
	return served, refused
}

// reachableCIDRs returns the CIDRs of a peer in the address families of its Local CIDRs: one of the clusters may be
// dual-stack and the other one not. It fails if the peer has CIDRs, but none in these families.
func reachableCIDRs(p Peer) ([]netip.Prefix, error) {
	var cidrs []netip.Prefix
	for _, r := range p.Remote {
		if p.representative(familyOfPrefix(r)).IsValid() {
			cidrs = append(cidrs, r)
		}
	}
	if len(cidrs) == 0 && len(p.Remote) > 0 {
		f := familyOfPrefix(p.Remote[0])
		return nil, fmt.Errorf("no local CIDR has the address family %s of its %s", f, p.Remote[0])
	}
	return cidrs, nil
}

// sorted returns a peer with sorted lists, except for Local, where the order is significant.
func sorted(p Peer) Peer {
	p.Remote = slices.Clone(p.Remote)
	slices.SortFunc(p.Remote, ComparePrefix)
	p.Mappings = slices.Clone(p.Mappings)
	slices.SortFunc(p.Mappings, func(a, b Mapping) int { return a.Seen.Compare(b.Seen) })
	p.Reachable = slices.Clone(p.Reachable)
	slices.SortFunc(p.Reachable, netip.Addr.Compare)
	p.Reachable = slices.Compact(p.Reachable)
	for i := range p.Mappings {
		m := &p.Mappings[i]
		m.Ports = slices.Clone(m.Ports)
		slices.SortFunc(m.Ports, func(a, b Port) int {
			return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
		})
	}
	return p
}

// countTargets returns the number of iptables rules that mappings need.
func countTargets(mappings []Mapping) int {
	count := 0
	for _, m := range mappings {
		count += max(len(m.Ports), 1)
	}
	return count
}

// checkPeer returns an error if a peer is invalid, independently of other peers.
func checkPeer(p Peer) error {
	switch {
	case p.ClusterID == "":
		return errors.New("it has no cluster ID")
	case p.PublicKey == PublicKey{}:
		return errors.New("it has no public key")
	case p.MTU != 0 && (p.MTU < minMTU || p.MTU > maxMTU):
		return fmt.Errorf("its MTU %d is not between %d and %d", p.MTU, minMTU, maxMTU)
	case p.PathMTU != 0 && (p.PathMTU < minMTU || p.PathMTU > maxMTU):
		return fmt.Errorf("its path MTU %d is not between %d and %d", p.PathMTU, minMTU, maxMTU)
	case len(p.Remote) == 0 && !p.Control.enabled():
		return errors.New("it has no CIDRs")
	case len(p.Remote) > maxPeerCIDRs || len(p.Local) > maxPeerCIDRs:
		return fmt.Errorf("it has more than %d CIDRs", maxPeerCIDRs)
	case countTargets(p.Mappings) > maxPeerMappings:
		return fmt.Errorf("its mappings have more than %d ports", maxPeerMappings)
	case len(p.Reachable) > maxReachable:
		return fmt.Errorf("its TunnelReach has more than %d addresses", maxReachable)
	}
	for _, r := range p.Remote {
		if err := checkPrefix(r); err != nil {
			return err
		}
	}
	if e := p.Endpoint; e != (netip.AddrPort{}) {
		a := e.Addr()
		if !a.IsValid() || a.Zone() != "" || e.Port() == 0 ||
			slices.ContainsFunc(forbidden, func(f netip.Prefix) bool { return f.Contains(a) }) {
			return fmt.Errorf("its endpoint %s is not a valid destination", e)
		}
		if slices.ContainsFunc(p.Remote, func(r netip.Prefix) bool { return r.Contains(a) }) {
			return fmt.Errorf("its endpoint %s is in its own CIDRs, behind the tunnel", e)
		}
	}
	return checkLocal(p)
}

// checkLocal returns an error if the local CIDRs or the mappings of a peer are invalid.
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
				return fmt.Errorf("the local CIDR %s (remapped to %s) overlaps the local CIDR %s (remapped to %s)",
					a.CIDR, a.Mapped, b.CIDR, b.Mapped)
			}
		}
	}
	seen := make(map[netip.Addr]bool)
	for _, m := range p.Mappings {
		for _, a := range []netip.Addr{m.Seen, m.Target} {
			if !a.IsValid() || a.Zone() != "" || a.Is4In6() || checkPrefix(host(a)) != nil {
				return fmt.Errorf("the mapping of %s to %s has an address that is malformed, IPv4-mapped, "+
					"or in a range that no cluster may announce", m.Seen, m.Target)
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
				return fmt.Errorf("the mapping of %s has the invalid port %d of protocol %q", m.Seen, port.Number, port.Protocol)
			}
		}
	}
	return nil
}

// claims holds the ranges, cluster IDs and keys that are in use, so that no further peer may have them.
type claims struct {
	local       ranges
	remote      ranges
	unreachable []netip.Prefix        // local ranges in which no peer's endpoint may be
	nodes       map[netip.Addr]string // names of the local nodes by address
	clusters    map[string]bool
	keys        map[PublicKey]string
}

func newClaims(in Input) *claims {
	t := &claims{
		unreachable: slices.Concat(in.PodCIDRs, in.Virtual), nodes: make(map[netip.Addr]string),
		clusters: make(map[string]bool), keys: make(map[PublicKey]string),
	}
	type block struct {
		prefix netip.Prefix
		owner  string
	}
	var blocks []block
	for _, p := range slices.Concat(in.PodCIDRs, in.Virtual, in.Reserved) {
		blocks = append(blocks, block{p, "the local cluster"})
	}
	for _, n := range in.Nodes {
		for _, p := range n.PodCIDRs {
			blocks = append(blocks, block{p, "local node " + n.Name})
		}
		for _, a := range slices.Concat(n.Addresses, n.External) {
			blocks = append(blocks, block{host(a), "local node " + n.Name})
			t.nodes[a] = n.Name
		}
	}
	slices.SortFunc(
		blocks,
		func(a, b block) int { return cmp.Or(ComparePrefix(a.prefix, b.prefix), cmp.Compare(a.owner, b.owner)) },
	)
	for _, r := range blocks {
		// A range that is contained in another one follows it in this order, and needs no entry.
		if last := len(t.local.prefixes) - 1; last < 0 || !t.local.prefixes[last].Overlaps(r.prefix) {
			t.local.prefixes, t.local.owners = append(t.local.prefixes, r.prefix), append(t.local.owners, r.owner)
		}
	}
	return t
}

// checkEndpoint returns an error if the endpoint that a peer announces is an address of a local node or in
// Input.PodCIDRs or Input.Virtual: a peer must not direct the gateway's packets to a local program. Other addresses in
// Input.Reserved are valid, because the nodes of the peer may be in the same network. A learned endpoint is always
// valid.
func (t *claims) checkEndpoint(p Peer) error {
	if !p.Endpoint.IsValid() || p.EndpointLearned {
		return nil
	}
	a := p.Endpoint.Addr()
	if name, found := t.nodes[a]; found {
		return fmt.Errorf("its endpoint %s is local node %s", p.Endpoint, name)
	}
	if i := slices.IndexFunc(t.unreachable, func(r netip.Prefix) bool { return r.Contains(a) }); i >= 0 {
		return fmt.Errorf("its endpoint %s is in the local range %s", p.Endpoint, t.unreachable[i])
	}
	return nil
}

// claim adds the values of a peer. If one of them is in use it adds nothing and returns an error.
func (t *claims) claim(p Peer) error {
	if t.clusters[p.ClusterID] {
		return errors.New("another peer has its cluster ID")
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
		if local, owner, found := t.local.overlapping(r); found {
			return fmt.Errorf("its %s overlaps %s of %s", r, local, owner)
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

// ranges is a set of disjoint prefixes in order, with an owner each.
type ranges struct {
	prefixes []netip.Prefix
	owners   []string
}

// overlapping returns a prefix in the set that overlaps p, and its owner. Two prefixes are disjoint or one
// contains the other, so that only the prefix at the position of p, or directly before it, can overlap p.
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
