// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"net/netip"
	"slices"
	"strings"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// forget has the kernel forget the connections whose addresses would become
// something else now than they have: it translates the first packet of a
// connection, and does the same to all others for as long as there are some.
func (a *Applier) forget() error {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		if len(a.stale[f]) == 0 {
			continue
		}
		if err := a.write(a.kernel.ForgetConnections(f, a.stale[f])); err != nil {
			return err
		}
		delete(a.stale, f)
	}
	return nil
}

// translations are what addresses have become by the chains of the table nat as
// they were, and would not become by those that are there now.
func translations(before, now []model.Chain) []kernel.Translation {
	var stale []kernel.Translation
	only(before, now, func(rule string, with []netip.Prefix) {
		if to, ok := translated(rule); ok {
			stale = append(stale, kernel.Translation{To: to, With: with})
		}
	})
	only(now, before, func(rule string, with []netip.Prefix) {
		if to, ok := untranslated(rule); ok && (to.Bits() > 0 || len(with) > 0) {
			stale = append(stale, kernel.Translation{To: to, With: with})
		}
	})
	return stale
}

// only calls f with each rule that some chains have and others have not, and
// with the ranges of the rules that lead to its chain.
func only(have, others []model.Chain, f func(rule string, with []netip.Prefix)) {
	leading := make(map[string][]netip.Prefix)
	for _, c := range have {
		for _, rule := range c.Rules {
			to, _ := word(rule, "-j")
			if at, ok := argument(rule, "-s", "-d"); ok && strings.HasPrefix(to, model.ChainPrefix) {
				leading[to] = append(leading[to], at)
			}
		}
	}
	there := make(map[string][]string)
	anywhere := make(map[string]bool)
	for _, c := range others {
		there[c.Name] = c.Rules
		for _, rule := range c.Rules {
			anywhere[rule] = true
		}
	}
	for _, c := range have {
		for _, rule := range c.Rules {
			// A rule about one address may hang elsewhere in a tree.
			if !slices.Contains(there[c.Name], rule) && !(strings.Contains(rule, "-j DNAT") && anywhere[rule]) {
				f(rule, leading[c.Name])
			}
		}
	}
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
