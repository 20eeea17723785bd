// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"net/netip"
	"slices"
)

const (
	// maxRules is the number of rules that a packet meets in one chain of a tree.
	maxRules = 64
	// branchBits is the number of address bits that distinguish maxRules branches.
	branchBits = 6
	// maxLevels bounds the depth of a tree: nftables follows at most 16 jumps, and a packet meets two trees. IPv4
	// needs at most five levels; of IPv6 addresses, those left in the last level share 36 bits beyond the common
	// ones.
	maxLevels = 6
)

// TreeChainPrefix is the prefix of the names of the inner chains of trees.
const TreeChainPrefix = ChainPrefix + "T-"

// branch is the target of packets in a range that also match: the parts of a rule around -j.
type branch struct {
	prefix netip.Prefix
	target string
	match  string
}

// addTree adds a rule per branch to the chain. Ranges must be disjoint, or equal, of which there may be few. The
// format renders the match of a range. Up to maxRules rules are added in sequence; more of them become a tree of
// chains by the bits of their addresses, which addTree returns, so that packets do not meet thousands of rules.
// Packets that match no branch return to the chain.
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

// fill adds branches to a chain; they must be sorted if there are more than maxRules.
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

// split divides sorted branches by the first bits in which they differ, into as few groups as leave at most
// maxRules in each, or into maxRules groups if that is not enough.
func split(branches []branch) []group {
	common := commonBits(branches[0].prefix, branches[len(branches)-1].prefix)
	var groups []group
	for bits := 1; bits <= branchBits; bits++ {
		groups = groups[:0]
		largest := 0
		for _, w := range branches {
			// A range larger than a group is a group by itself.
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

// treeChain returns the name of the chain of a tree for a range.
func treeChain(root string, p netip.Prefix) string {
	sum := sha256.Sum256([]byte(root + " " + p.String()))
	return TreeChainPrefix + lowerBase32.EncodeToString(sum[:])[:20]
}
