// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"net/netip"
	"slices"
)

const (
	// maxRules is the largest number of rules in one chain of a tree.
	maxRules = 64
	// branchBits is the number of address bits that distinguish maxRules ranges.
	branchBits = 6
	// maxLevels bounds the depth of a tree. nftables follows at most 16 jumps, and a packet passes two trees. IPv4
	// addresses need at most five levels. IPv6 addresses may need more: a chain at the last level may have more than
	// maxRules rules, for addresses that are equal in 36 bits in addition to the bits that all addresses share.
	maxLevels = 6
)

// TreeChainPrefix is the prefix of the names of the chains that distribute many rules of one chain, see Chain.addTree.
const TreeChainPrefix = ChainPrefix + "T-"

// branch is one rule of a tree: packets whose address is in prefix and that match the iptables options in match, if
// any, jump to target.
type branch struct {
	prefix netip.Prefix
	target string
	match  string
}

// addTree adds a rule for each branch to the chain. The ranges of two branches must be disjoint or equal. At most
// maxRules branches should have the same range, because their rules are all in one chain. The format renders a range as
// a match, for example "-s %s". Up to maxRules rules are added to the chain itself. More rules are distributed over a
// tree of chains, by the bits of their addresses, so that no packet is compared with thousands of rules. addTree
// returns the additional chains. A packet that matches no branch returns to the chain.
func (c *Chain) addTree(format string, branches []branch) (further []Chain) {
	if len(branches) > maxRules {
		branches = slices.Clone(branches)
		slices.SortFunc(branches, func(a, b branch) int { return ComparePrefix(a.prefix, b.prefix) })
	}
	t := tree{root: c.Name, format: format}
	t.fill(c, branches, maxLevels)
	return t.further
}

// tree is the state of building a tree below one chain.
type tree struct {
	root    string // name of the chain
	format  string
	further []Chain
}

// fill adds branches to a chain, with at most the given number of levels below. The branches must be sorted if
// there are more than maxRules.
func (t *tree) fill(c *Chain, branches []branch, levels int) {
	if len(branches) <= maxRules || levels == 0 {
		for _, w := range branches {
			t.add(c, w)
		}
		return
	}
	for _, g := range split(branches) {
		if len(g.branches) == 1 {
			t.add(c, g.branches[0])
			continue
		}
		below := Chain{Family: c.Family, Table: c.Table, Name: treeChain(t.root, g.prefix)}
		t.add(c, branch{prefix: g.prefix, target: below.Name})
		t.fill(&below, g.branches, levels-1)
		t.further = append(t.further, below)
	}
}

func (t *tree) add(c *Chain, w branch) {
	c.add(t.format+"%s -j %s", w.prefix, w.match, w.target)
}

// group is a set of branches whose ranges are in one prefix.
type group struct {
	prefix   netip.Prefix
	branches []branch
}

// split divides sorted branches by the bits that follow their common bits. It uses the least number of bits, up to
// branchBits, with which each group has at most maxRules branches.
func split(branches []branch) []group {
	common := commonBits(branches[0].prefix, branches[len(branches)-1].prefix)
	var groups []group
	for bits := 1; bits <= branchBits; bits++ {
		groups = groups[:0]
		largest := 0
		for _, w := range branches {
			// A range larger than a group becomes a group of its own.
			at := netip.PrefixFrom(w.prefix.Addr(), min(common+bits, w.prefix.Bits())).Masked()
			if last := len(groups) - 1; last >= 0 && groups[last].prefix == at {
				groups[last].branches = append(groups[last].branches, w)
			} else {
				groups = append(groups, group{prefix: at, branches: []branch{w}})
			}
			largest = max(largest, len(groups[len(groups)-1].branches))
		}
		if largest <= maxRules {
			break
		}
	}
	return groups
}

// commonBits returns the number of leading bits that two ranges share.
func commonBits(a, b netip.Prefix) int {
	for bits := range min(a.Bits(), b.Bits()) {
		if !netip.PrefixFrom(a.Addr(), bits+1).Contains(b.Addr()) {
			return bits
		}
	}
	return min(a.Bits(), b.Bits())
}

// treeChain returns the name of the iptables chain with the rules for addresses in p. The chain belongs to the tree of
// chains below the chain root, which addTree creates. The name is a hash of both parameters.
func treeChain(root string, p netip.Prefix) string {
	sum := sha256.Sum256([]byte(root + " " + p.String()))
	return TreeChainPrefix + lowerBase32.EncodeToString(sum[:])[:20]
}
