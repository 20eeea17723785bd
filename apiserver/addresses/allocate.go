// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"net/netip"
	"slices"
)

// Pool is the address space from which CIDRs are allocated: its CIDRs without the reserved ranges.
// Create it with NewPool.
type Pool struct {
	cidrs    []netip.Prefix
	reserved Set
	// blocks are the prefixes in cidrs that are not reserved, in the order of allocation.
	blocks []netip.Prefix
}

// NewPool returns a pool of cidrs without the reserved ranges. The CIDRs are used in their order.
func NewPool(cidrs, reserved []netip.Prefix) Pool {
	p := Pool{cidrs: cidrs}
	for _, prefix := range reserved {
		p.reserved = p.reserved.With(prefix)
	}
	for _, cidr := range cidrs {
		open := Set{}.With(cidr)
		for _, prefix := range reserved {
			if prefix.Overlaps(cidr) {
				open = open.Without(prefix)
			}
		}
		for block := range open.Prefixes() {
			p.blocks = append(p.blocks, block)
		}
	}
	return p
}

// Reserved returns the ranges that are never allocated.
func (p Pool) Reserved() Set { return p.reserved }

// holds reports whether a range is within one of the pool's CIDRs, reserved or not.
func (p Pool) holds(prefix netip.Prefix) bool {
	return slices.ContainsFunc(p.cidrs, func(cidr netip.Prefix) bool {
		return cidr.Bits() <= prefix.Bits() && cidr.Contains(prefix.Addr())
	})
}

// Request is a request to allocate a range that Range is mapped to.
type Request struct {
	// Range is the range to map. The allocated range has the same prefix length and address family.
	Range netip.Prefix
	// Keep is true if Range may be mapped to itself although it is not in the pool. Then, if Exact is not set, Range is
	// mapped to itself if it is neither allocated nor reserved. If Keep is false, Range is mapped to itself only if it
	// equals Exact and is in the pool.
	Keep bool
	// Exact is the only range that may be allocated. The zero value permits any range.
	Exact netip.Prefix
	// Chance is a random number, by which Allocate selects one of several free addresses. It is an
	// argument so that Allocate is deterministic.
	Chance uint32
}

// ErrTaken is the error for a request whose Exact range is not available.
type ErrTaken struct {
	// Range is the Exact range of the request.
	Range netip.Prefix
	// Reason completes a sentence that begins with the range, for example "is in use".
	Reason string
}

// Error returns the range and the reason, for example "10.1.0.0/16 is in use".
func (e *ErrTaken) Error() string { return fmt.Sprintf("%s %s", e.Range, e.Reason) }

// ErrExhausted is the error for a request that no free range of the pool satisfies.
type ErrExhausted struct {
	// Bits is the requested prefix length.
	Bits int
	// Family is IPv4 or IPv6.
	Family string
	// NoCIDR is true if the pool has no CIDR of this address family.
	NoCIDR bool
}

// Error returns, for example, "it has no free IPv4 range of the size /16 left". "It" is the pool, which the caller
// names.
func (e *ErrExhausted) Error() string {
	if e.NoCIDR {
		return fmt.Sprintf("it has no %s CIDR", e.Family)
	}
	return fmt.Sprintf("it has no free %s range of the size /%d left", e.Family, e.Bits)
}

// Allocate returns a range that overlaps neither allocated nor reserved ranges: r.Exact if it is set, otherwise r.Range
// if r.Keep is true and r.Range is free, otherwise a range of the pool. It allocates from the upper end of the pool,
// because clusters usually number their networks from the lower end. A single address is selected at random near the
// upper end, so that a released address is rarely allocated again soon. Allocate fails with an ErrTaken or an
// ErrExhausted.
func (p Pool) Allocate(allocated Set, r Request) (netip.Prefix, error) {
	switch {
	case !r.Exact.IsValid():
	case p.reserved.Overlaps(r.Exact):
		return netip.Prefix{}, &ErrTaken{r.Exact, "is reserved"}
	case allocated.Overlaps(r.Exact):
		return netip.Prefix{}, &ErrTaken{r.Exact, "is in use"}
	case !p.holds(r.Exact) && !(r.Keep && r.Exact == r.Range):
		return netip.Prefix{}, &ErrTaken{r.Exact, "is not in its CIDRs"}
	default:
		return r.Exact, nil
	}
	switch {
	case !r.Keep:
		allocated = allocated.With(r.Range)
	case !allocated.Overlaps(r.Range) && !p.reserved.Overlaps(r.Range):
		return r.Range, nil
	}
	family := false
	for _, block := range p.blocks {
		if block.Addr().Is4() != r.Range.Addr().Is4() {
			continue
		}
		family = true
		free, ok := allocated.Free(block, r.Range.Bits())
		switch {
		case ok && r.Range.IsSingleIP():
			return nearby(allocated, block, free, r.Chance), nil
		case ok:
			return free, nil
		}
	}
	return netip.Prefix{}, &ErrExhausted{Bits: r.Range.Bits(), Family: familyOf(r.Range),
		NoCIDR: !family && !p.has(r.Range)}
}

// nearbyBits is the length of the host part of the prefix in which nearby selects an address: 4096
// addresses. With fewer, a client with a stale address could reach another endpoint; with more, single
// addresses would fragment larger ranges of the pool.
const nearbyBits = 12

// nearby returns a random free address of a block. It divides the block into prefixes of 4096 addresses, and selects an
// address in the highest prefix that has a free address and is at least half free. If no prefix is half free, it
// selects one in the prefix that contains highest, the highest free address of the block.
func nearby(allocated Set, block, highest netip.Prefix, random uint32) netip.Prefix {
	bits := max(block.Bits(), highest.Bits()-nearbyBits)
	around := netip.PrefixFrom(highest.Addr(), bits).Masked()
	for next := around; block.Contains(next.Addr()); next = netip.PrefixFrom(next.Addr().Prev(), bits).Masked() {
		if allocated.Share(next) <= 0.5 {
			around = next
			break
		}
	}
	upper := func(bits int) bool { return random>>(highest.Bits()-bits-1)&1 == 1 }
	free, _ := allocated.choose(around, highest.Bits(), upper)
	return free
}

// has reports whether the pool has a CIDR of the same address family as prefix.
func (p Pool) has(prefix netip.Prefix) bool {
	for _, cidr := range p.cidrs {
		if cidr.Addr().Is4() == prefix.Addr().Is4() {
			return true
		}
	}
	return false
}

func familyOf(prefix netip.Prefix) string {
	if prefix.Addr().Is4() {
		return "IPv4"
	}
	return "IPv6"
}
