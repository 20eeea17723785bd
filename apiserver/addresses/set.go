// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses allocates the ranges that CIDRs and addresses of peers are mapped to. Its functions
// are pure: the allocated ranges are an argument, and the result is the range to allocate.
package addresses

import (
	"iter"
	"net/netip"
)

// Set is an immutable set of IPv4 and IPv6 addresses, a binary tree of prefixes. With and Without
// return a changed copy, which shares most of its memory with the original. Each operation on a prefix
// visits at most one node for each bit of an address. The zero value is empty.
type Set struct {
	v4, v6 *node
}

// node represents which addresses of a prefix are in a set. Nil represents none of them, and full all
// of them; no other node does, so that equal sets have equal trees.
type node struct {
	lower, upper *node
	// room is the length of the largest free prefix within the node's prefix, minus the length of the
	// node's prefix. The larger it is, the less is free.
	room int
	// share is the fraction of the prefix that is in the set, from 0 to 1.
	share float64
}

// full is the node of every prefix that is completely in the set.
var full = &node{room: noRoom, share: 1}

// noRoom is the room of a prefix without a free address. It is larger than the number of bits of an
// address.
const noRoom = 1 << 10

func (n *node) freeBits() int {
	if n == nil {
		return 0
	}
	return n.room
}

func (n *node) used() float64 {
	if n == nil {
		return 0
	}
	return n.share
}

// halves returns the nodes of the lower and the upper half of the node's prefix.
func (n *node) halves() (lower, upper *node) {
	switch n {
	case nil, full:
		return n, n
	default:
		return n.lower, n.upper
	}
}

func join(lower, upper *node) *node {
	if lower == upper && (lower == nil || lower == full) {
		return lower
	}
	return &node{
		lower: lower, upper: upper,
		room:  min(1+min(lower.freeBits(), upper.freeBits()), noRoom),
		share: (lower.used() + upper.used()) / 2,
	}
}

// With returns the set with all addresses of a prefix added.
func (s Set) With(prefix netip.Prefix) Set { return s.put(prefix, full) }

// Without returns the set with all addresses of a prefix removed.
func (s Set) Without(prefix netip.Prefix) Set { return s.put(prefix, nil) }

func (s Set) put(prefix netip.Prefix, subtree *node) Set {
	address := prefix.Addr().AsSlice()
	if prefix.Addr().Is4() {
		s.v4 = s.v4.put(address, 0, prefix.Bits(), subtree)
	} else {
		s.v6 = s.v6.put(address, 0, prefix.Bits(), subtree)
	}
	return s
}

func (n *node) put(address []byte, depth, bits int, subtree *node) *node {
	if depth == bits || n == subtree {
		return subtree
	}
	lower, upper := n.halves()
	if bit(address, depth) {
		upper = upper.put(address, depth+1, bits, subtree)
	} else {
		lower = lower.put(address, depth+1, bits, subtree)
	}
	return join(lower, upper)
}

// at returns the node of a prefix, or of the shorter prefix that contains it and is completely in or
// out of the set.
func (s Set) at(prefix netip.Prefix) *node {
	n := s.v6
	if prefix.Addr().Is4() {
		n = s.v4
	}
	address := prefix.Addr().AsSlice()
	for depth := 0; depth < prefix.Bits() && n != nil && n != full; depth++ {
		if bit(address, depth) {
			n = n.upper
		} else {
			n = n.lower
		}
	}
	return n
}

// Overlaps reports whether any address of a prefix is in the set.
func (s Set) Overlaps(prefix netip.Prefix) bool { return s.at(prefix) != nil }

// Share returns the fraction of a prefix that is in the set, from 0 to 1.
func (s Set) Share(prefix netip.Prefix) float64 { return s.at(prefix).used() }

// Free returns the highest prefix of length bits in within that contains no address of the set. ok is
// false if no such prefix exists.
func (s Set) Free(within netip.Prefix, bits int) (free netip.Prefix, ok bool) {
	return s.choose(within, bits, func(int) bool { return true })
}

// choose returns a prefix of length bits in within that contains no address of the set; ok is false if no such prefix
// exists. It halves within repeatedly. If both halves contain such a prefix, it continues in the upper half if upper
// returns true for the length of the prefix that is halved, and otherwise in the lower half.
func (s Set) choose(within netip.Prefix, bits int, upper func(bits int) bool) (free netip.Prefix, ok bool) {
	n := s.at(within)
	if bits < within.Bits() || bits > within.Addr().BitLen() || within.Bits()+n.freeBits() > bits {
		return netip.Prefix{}, false
	}
	address := within.Masked().Addr().AsSlice()
	for depth := within.Bits(); depth < bits; depth++ {
		low, high := n.halves()
		fits := func(half *node) bool { return depth+1+half.freeBits() <= bits }
		if n = low; fits(high) && (upper(depth) || !fits(low)) {
			n = high
			set(address, depth)
		}
	}
	return prefixOf(address, bits), true
}

// LargestFree returns the largest prefix in within that contains no address of the set. ok is false if
// all addresses are in the set.
func (s Set) LargestFree(within netip.Prefix) (free netip.Prefix, ok bool) {
	return s.Free(within, within.Bits()+s.at(within).freeBits())
}

// Prefixes returns the shortest list of prefixes that contain exactly the addresses of the set, from
// the highest to the lowest address, IPv4 before IPv6.
func (s Set) Prefixes() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		_ = s.v4.walk(make([]byte, 4), 0, yield) && s.v6.walk(make([]byte, 16), 0, yield)
	}
}

func (n *node) walk(address []byte, depth int, yield func(netip.Prefix) bool) bool {
	switch n {
	case nil:
		return true
	case full:
		return yield(prefixOf(address, depth))
	}
	set(address, depth)
	more := n.upper.walk(address, depth+1, yield)
	unset(address, depth)
	return more && n.lower.walk(address, depth+1, yield)
}

func bit(address []byte, i int) bool { return address[i/8]&(0x80>>(i%8)) != 0 }

func set(address []byte, i int) { address[i/8] |= 0x80 >> (i % 8) }

func unset(address []byte, i int) { address[i/8] &^= 0x80 >> (i % 8) }

func prefixOf(address []byte, bits int) netip.Prefix {
	addr, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(addr, bits)
}
