// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"net/netip"
)

// Pool is the address space that ranges are taken from.
type Pool struct {
	cidrs    []netip.Prefix
	reserved Set
	// blocks are what of the CIDRs is not reserved, in the order in which it is
	// given.
	blocks []netip.Prefix
}

// NewPool makes a pool of some CIDRs, which are used in their order, without
// what of them is reserved.
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

// Reserved is what is never given.
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

// Request is for a range that stands for another one.
type Request struct {
	// Range is what it stands for; it will have the same size and family.
	Range netip.Prefix
	// Keep says that Range may stand for itself, if it is free.
	Keep bool
	// Wanted is the one range that will do. The zero value means that any will.
	Wanted netip.Prefix
	// Chance is a number that nobody knows before. It chooses an address among
	// those that are free.
	Chance uint32
}

// ErrTaken is what is said of a wanted range that cannot be had.
type ErrTaken struct {
	// Wanted is the range.
	Wanted netip.Prefix
	// Why says what is in the way.
	Why string
}

// Error says which range cannot be had, and why.
func (e *ErrTaken) Error() string { return fmt.Sprintf("%s %s", e.Wanted, e.Why) }

// ErrExhausted is what is said when a pool has no range of a size left.
type ErrExhausted struct {
	// Bits is the length of the prefix that was asked for.
	Bits int
	// Family is IPv4 or IPv6.
	Family string
	// Foreign tells that the pool has no CIDR of that family.
	Foreign bool
}

// Error says what is missing.
func (e *ErrExhausted) Error() string {
	if e.Foreign {
		return fmt.Sprintf("it has no %s CIDR", e.Family)
	}
	return fmt.Sprintf("it has no free %s range of the size /%d left", e.Family, e.Bits)
}

// Allocate chooses a range that overlaps neither what is taken nor what is
// reserved: the one that is wanted; or the same range, where it may be kept; or
// one of the pool. Those of the pool come from its upper end: who numbers a
// cluster by hand begins at the lower one, and what is taken there would have to
// be remapped. A single address is any of those nearby: an address that was
// given back is not the next to be given. The error is an ErrTaken or an
// ErrExhausted.
func (p Pool) Allocate(taken Set, r Request) (netip.Prefix, error) {
	switch {
	case !r.Wanted.IsValid():
	case p.reserved.Overlaps(r.Wanted):
		return netip.Prefix{}, &ErrTaken{r.Wanted, "is reserved"}
	case taken.Overlaps(r.Wanted):
		return netip.Prefix{}, &ErrTaken{r.Wanted, "is taken"}
	case !p.holds(r.Wanted) && !(r.Keep && r.Wanted == r.Range):
		return netip.Prefix{}, &ErrTaken{r.Wanted, "is not in its CIDRs"}
	default:
		return r.Wanted, nil
	}
	if r.Keep && !taken.Overlaps(r.Range) && !p.reserved.Overlaps(r.Range) {
		return r.Range, nil
	}
	family := false
	for _, block := range p.blocks {
		if block.Addr().Is4() != r.Range.Addr().Is4() {
			continue
		}
		family = true
		free, ok := taken.Free(block, r.Range.Bits())
		switch {
		case ok && r.Range.IsSingleIP():
			return nearby(taken, block, free, r.Chance), nil
		case ok:
			return free, nil
		}
	}
	return netip.Prefix{}, &ErrExhausted{Bits: r.Range.Bits(), Family: familyOf(r.Range), Foreign: !family && !p.has(r.Range)}
}

// nearbyBits is how many bits at the end tell those addresses apart that one is
// chosen of by chance. They are 4096: who was told of an address that is not
// there any more hardly ever meets another one behind it, and no larger range of
// the pool is lost.
const nearbyBits = 12

// nearby is a free address of a block, by chance: one of those around the
// highest that is free, or of the next ones below, half of which are free.
func nearby(taken Set, block, highest netip.Prefix, chance uint32) netip.Prefix {
	bits := max(block.Bits(), highest.Bits()-nearbyBits)
	around := netip.PrefixFrom(highest.Addr(), bits).Masked()
	for next := around; block.Contains(next.Addr()); next = netip.PrefixFrom(next.Addr().Prev(), bits).Masked() {
		if taken.Share(next) <= 0.5 {
			around = next
			break
		}
	}
	free, _ := taken.choose(around, highest.Bits(), func(bits int) bool { return chance>>(highest.Bits()-bits-1)&1 == 1 })
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
