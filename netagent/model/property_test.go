// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/netmap"
)

// anyPrefix draws a prefix. Two of them often overlap, and some are forbidden.
func anyPrefix(t *rapid.T, label string) netip.Prefix {
	bits := rapid.IntRange(9, 24).Draw(t, label+" length")
	if rapid.Bool().Draw(t, label+" is IPv6") {
		a := [16]byte{0: 0xfd, 1: byte(rapid.IntRange(0, 15).Draw(t, label))}
		return netip.PrefixFrom(netip.AddrFrom16(a), bits).Masked()
	}
	a := [4]byte{
		byte(rapid.SampledFrom([]int{10, 10, 10, 172, 127}).Draw(t, label)), byte(rapid.IntRange(0, 255).Draw(t, label)),
		byte(rapid.IntRange(0, 3).Draw(t, label)),
	}
	return netip.PrefixFrom(netip.AddrFrom4(a), bits).Masked()
}

func anyInput(t *rapid.T) Input {
	in := rome(rapid.SampledFrom([]string{"rome-1", "rome-2"}).Draw(t, "node"))
	in.Gateways = []string{"rome-1", "rome-2"}
	in.Peers = nil
	for i := range rapid.IntRange(0, 12).Draw(t, "peers") {
		p := Peer{
			ClusterID: fmt.Sprintf("cluster-%d", i), PublicKey: PublicKey{byte(i + 1)},
			Local: []netmap.CIDRMapping{
				{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.2.0.0/16")},
				{CIDR: prefix("fd10::/48"), Mapped: prefix("fd12::/48")},
			},
		}
		for j := range rapid.IntRange(1, 4).Draw(t, "CIDRs") {
			p.Remote = append(p.Remote, anyPrefix(t, fmt.Sprintf("CIDR %d of %d", j, i)))
		}
		in.Peers = append(in.Peers, p)
	}
	return in
}

func TestNoTwoPeersShareAnAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Node, in.Active = "rome-1", "rome-1"
		route, refused, err := RouteAgent(in)
		if err != nil {
			t.Fatal(err)
		}
		_, inside, _, err := Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		if served := len(inside.Tunnel.Peers); served+len(refused) != len(in.Peers) {
			t.Fatalf("of %d peers, %d are served and %d refused", len(in.Peers), served, len(refused))
		}
		var allowed []netip.Prefix
		for _, p := range inside.Tunnel.Peers {
			allowed = append(allowed, p.AllowedIPs...)
		}
		var routed []netip.Prefix
		for _, r := range route.Routes {
			if r.Table == PeersTable {
				routed = append(routed, r.Dst)
			}
		}
		for i, p := range allowed {
			if !slices.Contains(routed, p) {
				t.Fatalf("%s is allowed and not routed", p)
			}
			for _, other := range slices.Concat(allowed[:i], in.PodCIDRs, in.Virtual, in.Reserved) {
				if p.Overlaps(other) {
					t.Fatalf("%s overlaps %s", p, other)
				}
			}
		}
		if len(routed) != len(allowed) {
			t.Fatalf("%d CIDRs are routed, %d allowed", len(routed), len(allowed))
		}
	})
}

func TestOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		mixed := in
		mixed.Peers = rapid.Permutation(in.Peers).Draw(t, "peers")
		mixed.Nodes = rapid.Permutation(in.Nodes).Draw(t, "nodes")
		mixed.Gateways = rapid.Permutation(in.Gateways).Draw(t, "gateways")
		mixed.PodCIDRs = rapid.Permutation(in.PodCIDRs).Draw(t, "pod CIDRs")
		mixed.Peers = slices.Clone(mixed.Peers)
		for i, p := range mixed.Peers {
			mixed.Peers[i].Remote = rapid.Permutation(p.Remote).Draw(t, "CIDRs")
		}
		type result struct {
			Route, Host, Inside State
			Refused             []string
		}
		compute := func(in Input) result {
			var r result
			var refused []Refusal
			var err error
			if r.Route, _, err = RouteAgent(in); err != nil {
				t.Fatal(err)
			}
			if r.Host, r.Inside, refused, err = Gateway(in); err != nil {
				t.Fatal(err)
			}
			for _, f := range refused {
				r.Refused = append(r.Refused, f.ClusterID)
			}
			return r
		}
		if diff := cmp.Diff(compute(in), compute(mixed), values); diff != "" {
			t.Fatalf("(-in order +mixed):\n%s", diff)
		}
	})
}

func TestNamesFitAndAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		route, _, err := RouteAgent(in)
		if err != nil {
			t.Fatal(err)
		}
		host, inside, _, err := Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		links := make(map[string]bool)
		for _, s := range []State{route, host, inside} {
			chains := make(map[string]bool)
			for _, l := range s.Links {
				if len(l.Name) > 15 || links[l.Name] || !slices.Contains(s.Scope.Links, l.Name) {
					t.Fatalf("the link %q is too long, present twice or out of scope", l.Name)
				}
				links[l.Name] = true
			}
			for _, c := range s.Chains {
				name := fmt.Sprint(c.Family, c.Table, c.Name)
				if len(c.Name) > 28 || chains[name] {
					t.Fatalf("the chain %q is too long or present twice", c.Name)
				}
				chains[name] = true
			}
		}
	})
}

func TestRangesFindEveryOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ranges
		for i := range rapid.IntRange(0, 30).Draw(t, "count") {
			p := anyPrefix(t, fmt.Sprintf("prefix %d", i))
			_, _, found := r.overlapping(p)
			if want := slices.ContainsFunc(r.prefixes, p.Overlaps); found != want {
				t.Fatalf("%s among %v: overlaps is %t", p, r.prefixes, found)
			}
			if !found {
				r.add(p, "x")
			}
		}
	})
}
