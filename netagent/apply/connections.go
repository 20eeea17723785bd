// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
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

// translations are what addresses have become by the chains of the table nat as
// they were, and would not become by those that are there now. Each is about
// connections with some peers: those whose ranges lead to the rule, or all that
// there are and were, where it is about every packet to them. Who has no peer is
// never meant.
func translations(before, now []model.Chain) []kernel.Translation {
	old, next := treesOf(before), treesOf(now)
	peers := union(old.with(model.FromPeersChain), next.with(model.FromPeersChain))
	var stale []kernel.Translation
	add := func(to netip.Prefix, with []netip.Prefix) {
		if len(with) == 0 {
			with = peers
		}
		if len(with) > 0 {
			stale = append(stale, kernel.Translation{To: to, With: with})
		}
	}
	only(old, next, func(rule string, with []netip.Prefix) {
		if to, ok := translated(rule); ok {
			add(to, with)
		}
	})
	only(next, old, func(rule string, with []netip.Prefix) {
		if to, ok := untranslated(rule); ok {
			add(to, with)
		}
	})
	return stale
}

// tree are the rules of a chain and of those that its rules are spread over, but
// for the ones that lead there.
type tree struct {
	rules []string
	// with are the ranges of the rules that lead here from elsewhere.
	with []netip.Prefix
}

// trees are by the name of the chain above all others.
type trees map[string]*tree

func (t trees) with(name string) []netip.Prefix {
	if t[name] == nil {
		return nil
	}
	return t[name].with
}

func (t trees) at(name string) *tree {
	if t[name] == nil {
		t[name] = &tree{}
	}
	return t[name]
}

func treesOf(chains []model.Chain) trees {
	above := make(map[string]string)
	for _, c := range chains {
		for _, rule := range c.Rules {
			if to, _ := word(rule, "-j"); strings.HasPrefix(to, model.TreeChainPrefix) {
				above[to] = c.Name
			}
		}
	}
	all := make(trees)
	for _, c := range chains {
		root := c.Name
		for above[root] != "" {
			root = above[root] // the kernel takes no chain that leads back to itself
		}
		for _, rule := range c.Rules {
			to, _ := word(rule, "-j")
			switch at, ok := argument(rule, "-s", "-d"); {
			case strings.HasPrefix(to, model.TreeChainPrefix):
			case !strings.HasPrefix(to, model.ChainPrefix):
				all.at(root).rules = append(all.at(root).rules, rule)
			case ok:
				all.at(to).with = append(all.at(to).with, at)
			}
		}
	}
	return all
}

// only calls f with each rule that some trees have and others have not, and with
// the ranges that lead there. Where in its tree a rule hangs does not matter.
func only(have, others trees, f func(rule string, with []netip.Prefix)) {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		there := make(map[string]bool)
		if other := others[name]; other != nil {
			for _, rule := range other.rules {
				there[rule] = true
			}
		}
		for _, rule := range have[name].rules {
			if !there[rule] {
				f(rule, have[name].with)
			}
		}
	}
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
