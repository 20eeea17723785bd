// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"liqo.io/federation/netagent/model"
)

// Of the same two peers, the one that calls us otherwise is meant, and not the
// other one, though both have called us the same until then.
func TestConnectionsAreForgottenWhoseAddressesBecomeOthers(t *testing.T) {
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
	// What is called by a peer of 10.101.0.0/16 or fd11:1::/48.
	const theirs, theirs6 = "[10.101.0.0/16]", "[fd11:1::/48]"
	for _, test := range []struct {
		name string
		peer model.Peer
		want []string
	}{
		{"nothing changes", first, nil},
		{"a mapping comes", with(func(p *model.Peer) { p.Mappings = append(p.Mappings, mapping("10.70.0.3", "172.20.0.3")) }), []string{"10.70.0.3/32 " + theirs}},
		{"a mapping goes", with(func(p *model.Peer) { p.Mappings = p.Mappings[:1] }), []string{"172.20.0.2/32 " + theirs}},
		{"a mapping leads elsewhere", with(func(p *model.Peer) { p.Mappings[0] = mapping("10.70.0.1", "172.20.0.9") }), []string{"10.70.0.1/32 " + theirs, "172.20.0.1/32 " + theirs}},
		{"it calls our pods otherwise", with(func(p *model.Peer) { p.Local[0].Seen = prefix("10.3.0.0/16") }), []string{
			// What became of them until now: those of our pods, and of what is none.
			"10.0.0.0/16 " + theirs, "10.2.0.0/16 " + theirs, "10.2.0.0/32 " + theirs,
			// What would have come of them without the new rules.
			"0.0.0.0/0 " + theirs, "10.0.0.0/16 " + theirs, "10.3.0.0/16 " + theirs, "10.3.0.0/32 " + theirs,
		}},
		{"it needs no translation any more", with(func(p *model.Peer) { p.Local[1].Seen = p.Local[1].Own }), []string{
			"fd10::/48 " + theirs6, "fd12::/48 " + theirs6, "fd12::/128 " + theirs6,
			"::/0 " + theirs6, "fd10::/128 " + theirs6,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode()
			n.must(t, input(first, other))
			n.inner.Forgotten = nil
			n.must(t, input(test.peer, other))
			var got []string
			for _, f := range n.inner.Forgotten {
				got = append(got, fmt.Sprint(f.To, " ", f.With))
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("forgotten were %q, and not %q", got, test.want)
			}
		})
	}
}

// More than a chain takes hang in a tree, where they meant the same before.
func TestRulesThatMoveInTreesHaveNothingForgotten(t *testing.T) {
	few, many := peer(1), peer(1)
	for i := range byte(200) {
		many.Mappings = append(many.Mappings, model.Mapping{Seen: netip.AddrFrom4([4]byte{10, 70, 1, i}), Target: netip.AddrFrom4([4]byte{172, 20, 0, i})})
	}
	few.Mappings = many.Mappings[:20]
	n := newNode()
	n.must(t, input(few))
	n.inner.Forgotten = nil
	n.must(t, input(many))
	for _, f := range n.inner.Forgotten {
		for _, m := range few.Mappings {
			if f.To.Contains(m.Seen) || f.To.Contains(m.Target) {
				t.Errorf("%v was forgotten, and %v is as before", f, m)
			}
		}
	}
	if len(n.inner.Forgotten) != len(many.Mappings)-len(few.Mappings) {
		t.Errorf("%d were forgotten, when %d mappings came", len(n.inner.Forgotten), len(many.Mappings)-len(few.Mappings))
	}
}
