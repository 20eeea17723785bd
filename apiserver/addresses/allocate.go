// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"net/netip"
)

// Pool is the address space that ranges are allocated from.
type Pool struct {
	cidrs    []netip.Prefix
	reserved Set
	// blocks are the parts of the CIDRs that are not reserved, in the order of allocation.
	blocks []netip.Prefix
}

// NewPool returns a pool of CIDRs, which are used in their order, without reserved ranges.
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

// holds reports whether a range lies within a CIDR of the pool.
func (p Pool) holds(prefix netip.Prefix) bool {
	for _, cidr := range p.cidrs {
		if cidr.Bits() <= prefix.Bits() && cidr.Contains(prefix.Addr()) {
			return true
		}
	}
	return false
}

// Request is a request for a range to map Range to.
type Request struct {
	// Range is the range that is mapped; the allocated one has its size and family.
	Range netip.Prefix
	// Keep is true if Range may be mapped to itself, if it is free.
	Keep bool
	// Exact is the only acceptable range. The zero value means any.
	Exact netip.Prefix
	// Chance is a random number that selects one of the free addresses.
	Chance uint32
}

// ErrTaken means that the exact range of a request is not available.
type ErrTaken struct {
	// Range is the requested range.
	Range netip.Prefix
	// Reason is why it is not available.
	Reason string
}

// Error has the range and the reason.
func (e *ErrTaken) Error() string { return fmt.Sprintf("%s %s", e.Range, e.Reason) }

// ErrExhausted means that a pool has no free range of a size.
type ErrExhausted struct {
	// Bits is the requested prefix length.
	Bits int
	// Family is IPv4 or IPv6.
	Family string
	// NoCIDR is true if the pool has no CIDR of that family.
	NoCIDR bool
}

// Error has the family and the size.
func (e *ErrExhausted) Error() string {
	if e.NoCIDR {
		return fmt.Sprintf("it has no %s CIDR", e.Family)
	}
	return fmt.Sprintf("it has no free %s range of the size /%d left", e.Family, e.Bits)
}

// Allocate returns a range that overlaps neither allocated nor reserved ranges: the exact one, the same
// range if it may be kept, or one of the pool. Ranges of the pool are allocated from its upper end,
// since clusters are usually numbered from the lower end and would conflict. A single address is a
// random one of those nearby, so that a released address is not the next one to be allocated. It fails
// with an ErrTaken or an ErrExhausted.
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
	if r.Keep && !allocated.Overlaps(r.Range) && !p.reserved.Overlaps(r.Range) {
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

// nearbyBits is the number of host bits of the addresses among which a random one is selected. There
// are 4096, so that a client with a stale address rarely reaches another endpoint, and no larger range
// of the pool is fragmented.
const nearbyBits = 12

// nearby returns a random free address of a block: one near the highest free address, or the next ones
// below, of which half are free.
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

// has reports whether the pool has a CIDR of a range's family.
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
