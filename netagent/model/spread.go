// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"net/netip"
	"slices"
)

const (
	// maxWays is how many rules a packet meets in one chain of a tree.
	maxWays = 64
	// waysBits are the bits of an address that tell so many ways apart.
	waysBits = 6
	// maxLevels bounds the chains below each other: nftables follows no more than
	// 16 jumps, and a packet meets two trees. IPv4 needs no more than five; of
	// IPv6 addresses, what is left at the last level shares 36 bits beyond those
	// that all have in common.
	maxLevels = 6
)

// TreeChainPrefix begins the names of the chains that rules of another one are
// spread over.
const TreeChainPrefix = ChainPrefix + "T-"

// way is what happens to packets of a range, or to those of them that match
// something: the rest of a rule, behind -j.
type way struct {
	prefix netip.Prefix
	target string
	match  string
}

// spread adds a rule to the chain for each of ranges that are the same, a few
// times at most, or do not overlap. The format makes the beginning of one of a
// range. Few of them follow each
// other in this chain; many become a tree of chains, by the bits of their
// addresses, so that no packet has to pass thousands of rules that are about
// others. A packet that no rule is about comes back to this chain either way.
func (c *Chain) spread(format string, ways []way) (further []Chain) {
	if len(ways) > maxWays {
		ways = slices.Clone(ways)
		slices.SortFunc(ways, func(a, b way) int { return ComparePrefix(a.prefix, b.prefix) })
	}
	t := tree{root: c.Name, format: format}
	t.fill(c, ways, maxLevels)
	return t.further
}

// tree is what comes of spreading the rules of one chain.
type tree struct {
	root    string // the name of that chain
	format  string
	further []Chain
}

// fill adds ways to a chain, those in order if they are many.
func (t *tree) fill(c *Chain, ways []way, levels int) {
	if len(ways) <= maxWays || levels == 0 {
		for _, w := range ways {
			t.add(c, w)
		}
		return
	}
	for _, g := range split(ways) {
		if len(g.ways) == 1 {
			t.add(c, g.ways[0])
			continue
		}
		below := Chain{Family: c.Family, Table: c.Table, Name: treeChain(t.root, g.prefix)}
		t.add(c, way{prefix: g.prefix, target: below.Name})
		t.fill(&below, g.ways, levels-1)
		t.further = append(t.further, below)
	}
}

func (t *tree) add(c *Chain, w way) {
	c.add(t.format+"%s -j %s", w.prefix, w.match, w.target)
}

// group are ways whose ranges lie within one.
type group struct {
	prefix netip.Prefix
	ways   []way
}

// split divides ordered ways into as few groups as leave no more than maxWays in
// each, or into maxWays where that is not enough, by the first bits in which
// they differ.
func split(ways []way) []group {
	common := commonBits(ways[0].prefix, ways[len(ways)-1].prefix)
	var groups []group
	for bits := 1; bits <= waysBits; bits++ {
		groups = groups[:0]
		largest := 0
		for _, w := range ways {
			// A range that is larger than a group is one by itself.
			at := netip.PrefixFrom(w.prefix.Addr(), min(common+bits, w.prefix.Bits())).Masked()
			if last := len(groups) - 1; last >= 0 && groups[last].prefix == at {
				groups[last].ways = append(groups[last].ways, w)
			} else {
				groups = append(groups, group{prefix: at, ways: []way{w}})
			}
			largest = max(largest, len(groups[len(groups)-1].ways))
		}
		if largest <= maxWays {
			break
		}
	}
	return groups
}

// commonBits is how many leading bits two ranges share.
func commonBits(a, b netip.Prefix) int {
	for bits := range min(a.Bits(), b.Bits()) {
		if !netip.PrefixFrom(a.Addr(), bits+1).Contains(b.Addr()) {
			return bits
		}
	}
	return min(a.Bits(), b.Bits())
}

// treeChain names the chain of a tree that is about a range.
func treeChain(root string, p netip.Prefix) string {
	sum := sha256.Sum256([]byte(root + " " + p.String()))
	return TreeChainPrefix + lowerBase32.EncodeToString(sum[:])[:20]
}
