// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// maxStale bounds the translations that are kept while nothing can be forgotten.
const maxStale = 4096

// forget has the kernel forget the connections whose addresses would become
// something else now than they have: it translates the first packet of a
// connection, and does the same to all others for as long as there are some.
// Where that cannot be, the node is as it should be all the same, and the next
// pass tries again.
func (a *Applier) forget() {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		stale := a.stale[f]
		if len(stale) == 0 {
			continue
		}
		if err := a.kernel.ForgetConnections(f, stale); err != nil {
			klog.Background().Error(err, "Connections go on with the addresses that they have", "family", f, "translations", len(stale))
			a.stale[f] = stale[max(0, len(stale)-maxStale):]
			continue
		}
		a.writes++
		delete(a.stale, f)
	}
}

// translations are what addresses have become by the table nat as it was meant to
// be, or as it was found, and would not become by what is there now. Each is about
// connections with some peers: those whose ranges lead to the rule, or all that
// there are and were, where it is about every packet to them. Who has no peer is
// never meant.
func translations(meant, found, now effects) []kernel.Translation {
	before := maps.Clone(found)
	maps.Copy(before, meant)
	peers := union(before.peers(), now.peers())
	var stale []kernel.Translation
	only := func(some, others effects, address func(rule string) (netip.Prefix, bool)) {
		var last effect
		for _, e := range some.without(others) {
			to, ok := address(e.rule)
			switch {
			case !ok:
			case e.with.IsValid() && e.chain == last.chain && e.rule == last.rule:
				at := &stale[len(stale)-1]
				at.With, last = append(at.With, e.with), e
			case e.with.IsValid():
				stale, last = append(stale, kernel.Translation{To: to, With: []netip.Prefix{e.with}}), e
			case len(peers) > 0:
				stale, last = append(stale, kernel.Translation{To: to, With: peers}), effect{}
			}
		}
	}
	only(before, now, translated)
	only(now, found, untranslated)
	return stale
}

// effect is a rule that packets meet: those with some range, or all of them if it
// is the zero value. A rule that nothing leads to has none.
type effect struct {
	chain, rule string
	with        netip.Prefix
}

type effects map[effect]bool

// effectsOf are those of chains that jumps lead to. The chains that the rules of
// another one are spread over count as that one: where in its tree a rule hangs
// does not matter.
func effectsOf(chains []model.Chain, jumps []model.Jump) effects {
	rules := make(map[string][]string, len(chains))
	for _, c := range chains {
		rules[c.Name] = c.Rules
	}
	all := make(effects)
	var follow func(root, chain string, with netip.Prefix)
	follow = func(root, chain string, with netip.Prefix) {
		for _, rule := range rules[chain] {
			// The kernel takes no chain that leads back to itself.
			switch to, _ := word(rule, "-j"); {
			case strings.HasPrefix(to, model.TreeChainPrefix):
				follow(root, to, with)
			case strings.HasPrefix(to, model.ChainPrefix):
				at, ok := argument(rule, "-s", "-d")
				if !ok {
					at = with
				}
				follow(to, to, at)
			default:
				all[effect{root, rule, with}] = true
			}
		}
	}
	for _, j := range jumps {
		follow(j.Chain, j.Chain, netip.Prefix{})
	}
	return all
}

// peers are the ranges of all peers.
func (all effects) peers() []netip.Prefix {
	var ranges []netip.Prefix
	for e := range all {
		if e.chain == model.FromPeersChain && e.with.IsValid() {
			ranges = append(ranges, e.with)
		}
	}
	return ranges
}

// without are those that others have not, in order.
func (all effects) without(others effects) []effect {
	var rest []effect
	for e := range all {
		if !others[e] {
			rest = append(rest, e)
		}
	}
	slices.SortFunc(rest, func(a, b effect) int {
		return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.rule, b.rule), model.ComparePrefix(a.with, b.with))
	})
	return rest
}

// union are the ranges of both, each once.
func union(some, others []netip.Prefix) []netip.Prefix {
	all := slices.Concat(some, others)
	slices.SortFunc(all, model.ComparePrefix)
	return slices.Compact(all)
}

// translated is what a rule makes of addresses: also itself.
func translated(rule string) (netip.Prefix, bool) {
	if target, _ := word(rule, "-j"); target == "ACCEPT" {
		return argument(rule, "-s")
	}
	return argument(rule, "--to", "--to-source", "--to-destination")
}

// untranslated is what addresses have been that a rule makes others of:
// whatever they are, if it does not say.
func untranslated(rule string) (netip.Prefix, bool) {
	to, ok := argument(rule, "--to", "--to-source", "--to-destination")
	if !ok {
		return netip.Prefix{}, false
	}
	if from, ok := argument(rule, "-s", "-d"); ok {
		return from, true
	}
	return netip.PrefixFrom(to.Addr(), 0).Masked(), true
}

// argument is the range behind one of some words of a rule.
func argument(rule string, words ...string) (netip.Prefix, bool) {
	for _, w := range words {
		text, ok := word(rule, w)
		if !ok {
			continue
		}
		if p, err := netip.ParsePrefix(text); err == nil {
			return p, true
		}
		if a, err := netip.ParseAddr(text); err == nil {
			return netip.PrefixFrom(a, a.BitLen()), true
		}
	}
	return netip.Prefix{}, false
}

// word is the one that follows another one in a rule.
func word(rule, before string) (string, bool) {
	words := strings.Fields(rule)
	at := slices.Index(words, before)
	if at < 0 || at+1 >= len(words) {
		return "", false
	}
	return words[at+1], true
}
