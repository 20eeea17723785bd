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

// maxStale bounds the number of translations that are kept for a retry while flushing fails.
const maxStale = 4096

// flush deletes the conntrack entries of connections whose translation has changed, as the kernel evaluates NAT
// rules only for the first packet of a connection. It logs a failure, and the next call of Apply retries it.
func (a *Applier) flush() {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		stale := a.stale[f]
		if len(stale) == 0 {
			continue
		}
		if err := a.kernel.FlushConnections(f, stale); err != nil {
			klog.Background().
				Error(
					err, "Deleting connections with outdated translations failed, retrying", "family", f, "translations",
					len(stale),
				)
			a.stale[f] = stale[max(0, len(stale)-maxStale):]
			continue
		}
		a.writes++
		delete(a.stale, f)
	}
}

// staleTranslations returns the translations that existing connections may have, and that the current rules of the nat
// table (now) do not make: those of rules that were last applied (meant) or were in the kernel (found) and are removed,
// and those of connections that a new rule would translate. Each translation is limited to connections with some peers:
// the peers whose ranges lead to the rule, or all current and previous peers if the rule applies to all packets.
// Connections that involve no peer are never selected.
func staleTranslations(meant, found, now effects) []kernel.Translation {
	before := maps.Clone(found)
	maps.Copy(before, meant)
	peers := union(before.peers(), now.peers())
	var stale []kernel.Translation
	only := func(some, others effects, address func(rule string) (netip.Prefix, bool)) {
		var last effect
		for _, e := range some.minus(others) {
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

// effect is a rule that packets can reach, and the range (with) that contains their source or destination; if the range
// is not valid, all packets can reach the rule. A rule that no jump leads to has no effect.
type effect struct {
	chain, rule string
	with        netip.Prefix
}

type effects map[effect]bool

// effectsOf returns the effects of the rules in all chains that jumps lead to. A rule in a chain with TreeChainPrefix
// counts as a rule of the chain whose rules the tree distributes, because the position of a rule in the tree does not
// matter.
func effectsOf(chains []model.Chain, jumps []model.Jump) effects {
	rules := make(map[string][]string, len(chains))
	for _, c := range chains {
		rules[c.Name] = c.Rules
	}
	all := make(effects)
	var follow func(root, chain string, with netip.Prefix)
	follow = func(root, chain string, with netip.Prefix) {
		for _, rule := range rules[chain] {
			// The recursion ends, as the kernel rejects loops of chains.
			switch to, _ := wordAfter(rule, "-j"); {
			case strings.HasPrefix(to, model.TreeChainPrefix):
				follow(root, to, with)
			case strings.HasPrefix(to, model.ChainPrefix):
				at, ok := prefixAfter(rule, "-s", "-d")
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

// peers returns the ranges of all peers, which are those that FromPeersChain matches.
func (all effects) peers() []netip.Prefix {
	var ranges []netip.Prefix
	for e := range all {
		if e.chain == model.FromPeersChain && e.with.IsValid() {
			ranges = append(ranges, e.with)
		}
	}
	return ranges
}

// minus returns the effects that are not in others, sorted.
func (all effects) minus(others effects) []effect {
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

// union returns the ranges of two lists, sorted and without duplicates.
func union(some, others []netip.Prefix) []netip.Prefix {
	all := slices.Concat(some, others)
	slices.SortFunc(all, model.ComparePrefix)
	return slices.Compact(all)
}

// translated returns the addresses that packets have after a rule: those into which the rule translates or, if it
// accepts packets unchanged, the sources that it matches. It returns false if the rule names none.
func translated(rule string) (netip.Prefix, bool) {
	if target, _ := wordAfter(rule, "-j"); target == "ACCEPT" {
		return prefixAfter(rule, "-s")
	}
	return prefixAfter(rule, "--to", "--to-source", "--to-destination")
}

// untranslated returns the addresses that a rule translates: the range that it matches, or all addresses of the family
// if it matches none. It returns false if the rule does not translate.
func untranslated(rule string) (netip.Prefix, bool) {
	to, ok := prefixAfter(rule, "--to", "--to-source", "--to-destination")
	if !ok {
		return netip.Prefix{}, false
	}
	if from, ok := prefixAfter(rule, "-s", "-d"); ok {
		return from, true
	}
	return netip.PrefixFrom(to.Addr(), 0).Masked(), true
}

// prefixAfter returns the range that follows one of the words in a rule, and false if none does.
func prefixAfter(rule string, words ...string) (netip.Prefix, bool) {
	for _, w := range words {
		text, ok := wordAfter(rule, w)
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

// wordAfter returns the word that follows another word in a rule, and false if there is none.
func wordAfter(rule, before string) (string, bool) {
	words := strings.Fields(rule)
	at := slices.Index(words, before)
	if at < 0 || at+1 >= len(words) {
		return "", false
	}
	return words[at+1], true
}
