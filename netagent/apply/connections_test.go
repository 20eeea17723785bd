// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Two peers have the same CIDRs, and one of them changes. Only connections with that peer are flushed.
func TestConnectionsWithChangedTranslationAreFlushed(t *testing.T) {
	first, other := peer(1), peer(2)
	mapping := func(seen, target string) model.Mapping {
		return model.Mapping{Seen: netip.MustParseAddr(seen), Target: netip.MustParseAddr(target)}
	}
	first.Mappings = []model.Mapping{mapping("10.70.0.1", "172.20.0.1"), mapping("10.70.0.2", "172.20.0.2")}
	with := func(change func(*model.Peer)) model.Peer {
		p := first
		p.Local, p.Mappings = slices.Clone(first.Local), slices.Clone(first.Mappings)
		change(&p)
		return p
	}
	// The ranges of the changed peer.
	const remote, remote6 = "[10.101.0.0/16]", "[fd11:1::/48]"
	for _, test := range []struct {
		name string
		peer model.Peer
		want []string
	}{
		{"nothing changes", first, nil},
		{
			"a mapping is added",
			with(func(p *model.Peer) { p.Mappings = append(p.Mappings, mapping("10.70.0.3", "172.20.0.3")) }),
			[]string{"10.70.0.3/32 " + remote},
		},
		{
			"a mapping is removed", with(func(p *model.Peer) { p.Mappings = p.Mappings[:1] }),
			[]string{"172.20.0.2/32 " + remote},
		},
		{
			"a mapping gets another target", with(func(p *model.Peer) { p.Mappings[0] = mapping("10.70.0.1", "172.20.0.9") }),
			[]string{"10.70.0.1/32 " + remote, "172.20.0.1/32 " + remote},
		},
		{"local pods are remapped to another range", with(
			func(p *model.Peer) { p.Local[0].Mapped = prefix("10.3.0.0/16") },
		), []string{
			// Translations that the previous rules made, of local pods, of the gateway, and of everything that is
			// not a pod.
			"10.0.0.0/16 " + remote, "10.2.0.0/16 " + remote, "10.2.0.0/32 " + remote, "169.254.58.3/32 " + remote,
			// Addresses of connections that started before the new rules.
			"0.0.0.0/0 " + remote, "10.0.0.0/16 " + remote, "10.3.0.0/16 " + remote, "10.3.0.0/32 " + remote,
		}},
		{"one family is no longer remapped", with(func(p *model.Peer) { p.Local[1].Mapped = p.Local[1].CIDR }), []string{
			"fd10::/48 " + remote6, "fd12::/48 " + remote6, "fd12::/128 " + remote6, "100::6c71:3/128 " + remote6,
			"::/0 " + remote6, "fd10::/128 " + remote6,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode()
			n.must(t, input(first, other))
			n.inner.Flushed = nil
			n.must(t, input(test.peer, other))
			expectFlushed(t, n.inner.Flushed, test.want)
		})
	}
}

// expectFlushed compares flushed translations with their expected texts, in any order.
func expectFlushed(t *testing.T, forgotten []kernel.Translation, want []string) {
	t.Helper()
	var got []string
	for _, f := range forgotten {
		got = append(got, fmt.Sprint(f.To, " ", f.With))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("flushed %q, want %q", got, want)
	}
}

// Rules that do not fit into one chain are moved into a tree of chains, which does not change their effects.
func TestRulesThatMoveInATreeFlushNothing(t *testing.T) {
	few, many := peer(1), peer(1)
	for i := range byte(200) {
		many.Mappings = append(
			many.Mappings,
			model.Mapping{Seen: netip.AddrFrom4([4]byte{10, 70, 1, i}), Target: netip.AddrFrom4([4]byte{172, 20, 0, i})},
		)
	}
	few.Mappings = many.Mappings[:20]
	n := newNode()
	n.must(t, input(few))
	n.inner.Flushed = nil
	n.must(t, input(many))
	for _, f := range n.inner.Flushed {
		for _, m := range few.Mappings {
			if f.To.Contains(m.Seen) || f.To.Contains(m.Target) {
				t.Errorf("flushed %v although %v has not changed", f, m)
			}
		}
	}
	if len(n.inner.Flushed) != len(many.Mappings)-len(few.Mappings) {
		t.Errorf("%d translations flushed, %d mappings added", len(n.inner.Flushed), len(many.Mappings)-len(few.Mappings))
	}
}

// Conntrack on a node has the connections of all its pods. Connections that involve no peer are never flushed,
// however the chains change.
func TestNodeFlushesConnectionsWithPeersOnly(t *testing.T) {
	const one, two = "[10.101.0.0/16]", "[10.101.0.0/16 10.102.0.0/16]"
	const one6, two6 = "[fd11:1::/48]", "[fd11:1::/48 fd11:2::/48]"
	all := func(with, with6 string) []string {
		return []string{"0.0.0.0/0 " + with, "10.0.0.0/16 " + with, "fd10::/48 " + with6}
	}
	otherwise := func(in model.Input) model.Input {
		in.PodCIDRs = []netip.Prefix{prefix("10.9.0.0/16"), prefix("fd10::/48")}
		in.Nodes[0].PodCIDRs, in.Nodes[1].PodCIDRs = nil, nil
		return in
	}
	for _, test := range []struct {
		name   string
		before *model.Input
		change func(t *testing.T, n *node)
		want   []string
	}{
		{"no peers", nil, func(t *testing.T, n *node) { n.must(t, input()) }, nil},
		{
			"the first peer is added", nil, func(t *testing.T, n *node) { n.must(t, input(peer(1))) },
			append(all(one, one6), "0.0.0.0/0 "+one),
		},
		{
			"another peer is added", ptr.To(input(peer(1))), func(t *testing.T, n *node) { n.must(t, input(peer(1), peer(2))) },
			[]string{"0.0.0.0/0 [10.102.0.0/16]"},
		},
		{
			"the last peer is deleted", ptr.To(input(peer(1))), func(t *testing.T, n *node) { n.must(t, input()) },
			[]string{"192.168.1.1/32 " + one},
		},
		{"another program flushes all chains", ptr.To(input(peer(1), peer(2))), func(t *testing.T, n *node) {
			n.outer.Flush(model.IPv4, model.NATTable)
			n.must(t, input(peer(1), peer(2)))
		}, []string{"0.0.0.0/0 " + two, "10.0.0.0/16 " + two, "0.0.0.0/0 " + two}},
		{"the pod CIDRs change", ptr.To(input(peer(1))), func(t *testing.T, n *node) {
			n.must(t, otherwise(input(peer(1))))
		},
			[]string{"10.0.0.0/16 " + one, "10.9.0.0/16 " + one}},
		{"the pod CIDRs and the peer change", ptr.To(input(peer(1))), func(t *testing.T, n *node) {
			n.must(t, otherwise(input(peer(2))))
		},
			[]string{"10.0.0.0/16 " + two, "10.9.0.0/16 " + two, "192.168.1.1/32 " + one, "0.0.0.0/0 [10.102.0.0/16]"}},
		{"all is removed", ptr.To(input(peer(1), peer(2))), func(t *testing.T, n *node) {
			if err := n.teardown(); err != nil {
				t.Fatal(err)
			}
		}, []string{"10.0.0.0/16 " + two, "192.168.1.1/32 " + two, "192.168.1.1/32 " + two, "fd10::/48 " + two6}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode()
			if test.before != nil {
				n.must(t, *test.before)
			}
			n.outer.Flushed = nil
			test.change(t, n)
			expectFlushed(t, n.outer.Flushed, test.want)
		})
	}
}

// Another program flushes one chain after another. Connections that start while a chain is empty are not
// translated, and are flushed once its rules are written again.
func TestConnectionsThroughAnEmptiedChainAreFlushed(t *testing.T) {
	const remote = " [10.101.0.0/16]"
	leaving, coming := []string{
		"0.0.0.0/0" + remote,
		"10.0.0.0/16" + remote,
	}, []string{
		"10.2.0.0/16" + remote,
		"10.2.0.0/32" + remote,
	}
	in := input(peer(1))
	_, inside, _, err := model.Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	ofPeer := func(letter string) string {
		at := slices.IndexFunc(inside.Chains, func(c model.Chain) bool {
			return c.Family == model.IPv4 && strings.HasPrefix(c.Name, model.ChainPrefix+letter+"-")
		})
		if at < 0 {
			t.Fatalf("chain %s of a peer does not exist", letter)
		}
		return inside.Chains[at].Name
	}
	for _, test := range []struct {
		chain string
		want  []string
	}{
		{"POSTROUTING", leaving},
		{model.ChainPrefix + "POSTROUTING", leaving},
		{ofPeer("O"), leaving},
		{"PREROUTING", coming},
		{model.ChainPrefix + "PREROUTING", coming},
		{ofPeer("I"), coming},
	} {
		t.Run(test.chain, func(t *testing.T) {
			n := newNode()
			n.must(t, in)
			n.inner.Flushed = nil
			n.inner.Flush(model.IPv4, model.NATTable, test.chain)
			n.must(t, in)
			expectFlushed(t, n.inner.Flushed, test.want)
		})
	}
}

// A mapping is withdrawn while the jump to its chain is missing. Connections may have used it before the jump was
// deleted.
func TestMappingsWithdrawnWhileUnreachableAreFlushed(t *testing.T) {
	called := peer(1)
	called.Mappings = []model.Mapping{{Seen: netip.MustParseAddr("10.70.0.1"), Target: netip.MustParseAddr("172.20.0.1")}}
	for _, chain := range []string{"PREROUTING", model.ChainPrefix + "PREROUTING"} {
		n := newNode()
		n.must(t, input(called))
		n.inner.Flushed = nil
		n.inner.Flush(model.IPv4, model.NATTable, chain)
		n.must(t, input(peer(1)))
		if !slices.ContainsFunc(n.inner.Flushed, func(f kernel.Translation) bool { return f.To == prefix("172.20.0.1/32") }) {
			t.Errorf("after %s was flushed by another program, flushed: %v", chain, n.inner.Flushed)
		}
	}
}

// Two peers have the same mapping, and one of them loses it. Only the connections with this peer are flushed.
func TestSharedTranslationsAreFlushedPerPeer(t *testing.T) {
	first, second := peer(1), peer(2)
	shared := model.Mapping{Seen: netip.MustParseAddr("10.70.0.1"), Target: netip.MustParseAddr("172.20.0.1")}
	first.Mappings, second.Mappings = []model.Mapping{shared}, []model.Mapping{shared}
	n := newNode()
	n.must(t, input(first, second))
	n.inner.Flushed = nil
	n.must(t, input(peer(1), second))
	if got := fmt.Sprint(n.inner.Flushed); got != "[{172.20.0.1/32 [10.101.0.0/16]}]" {
		t.Errorf("flushed: %s", got)
	}
}

// If connections cannot be flushed, everything else is applied, and the next pass flushes them.
func TestFailedFlushIsRetriedWithoutFailingThePass(t *testing.T) {
	n := newNode()
	n.must(t, input(peer(1)))
	n.inner.Flushed = nil
	called := peer(1)
	called.Local = slices.Clone(called.Local)
	called.Local[0].Mapped = prefix("10.3.0.0/16")
	host, inside, _, err := model.Gateway(input(called))
	if err != nil {
		t.Fatal(err)
	}
	n.inner.FlushError = errors.New("no such subsystem")
	for range 3 {
		if _, err := n.host.Apply(host); err != nil {
			t.Fatal(err)
		}
		if _, err := n.inside.Apply(inside); err != nil {
			t.Fatal(err)
		}
	}
	if writes, err := n.inside.Apply(inside); writes != 0 || err != nil {
		t.Errorf("applying again without a change made %d writes: %v", writes, err)
	}
	if n.inner.FailedFlushes != 4 || len(n.inner.Flushed) != 0 {
		t.Errorf("%d failed flushes, flushed: %v", n.inner.FailedFlushes, n.inner.Flushed)
	}
	n.inner.FlushError = nil
	n.must(t, input(called))
	if !slices.ContainsFunc(n.inner.Flushed, func(f kernel.Translation) bool { return f.To == prefix("10.2.0.0/16") }) {
		t.Errorf("flushed: %v", n.inner.Flushed)
	}
}
