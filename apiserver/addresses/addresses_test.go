// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func prefixes(list ...string) []netip.Prefix {
	all := []netip.Prefix{}
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func setOf(list ...netip.Prefix) Set {
	var s Set
	for _, prefix := range list {
		s = s.With(prefix)
	}
	return s
}

func textOf(s Set) []string {
	var all []string
	for prefix := range s.Prefixes() {
		all = append(all, prefix.String())
	}
	return all
}

func TestAllocate(t *testing.T) {
	pool := NewPool(prefixes("10.0.0.0/8", "192.168.0.0/16", "fd00:10::/32"),
		prefixes("10.255.0.0/16", "10.96.0.0/12", "172.20.0.0/16"))
	wide := NewPool(prefixes("10.0.0.0/8", "fd6c:6971:8000::/33"), prefixes("fd00:10:96::/112"))
	for _, test := range []struct {
		name          string
		pool          Pool
		taken         []string
		request       string
		random        uint32
		keep          bool
		exact         string
		want, refused string
	}{
		{name: "a range that conflicts with nothing stays", pool: pool, request: "10.7.0.0/16", keep: true, want: "10.7.0.0/16"},
		{name: "a range outside the pool stays", pool: pool, request: "100.64.0.0/16", keep: true, want: "100.64.0.0/16"},
		{name: "a range in use is remapped", pool: pool, taken: []string{"10.7.1.0/24"}, request: "10.7.0.0/16", keep: true, want: "10.254.0.0/16"},
		{name: "a reserved range is remapped", pool: pool, request: "10.96.0.0/16", keep: true, want: "10.254.0.0/16"},
		{name: "a reserved range outside the pool is remapped into it", pool: pool, request: "172.20.4.0/24", keep: true, want: "10.254.255.0/24"},
		{name: "a range that must not stay is remapped", pool: pool, request: "10.7.0.0/16", want: "10.254.0.0/16"},
		{name: "a range that must not stay is remapped from the upper end", pool: pool, request: "10.254.0.0/16", want: "10.253.0.0/16"},
		{name: "an address that must not stay is remapped", pool: pool, request: "10.254.240.1/32", random: 1, want: "10.254.240.0/32"},
		{name: "an address is allocated from the pool", pool: pool, request: "192.0.2.1/32", want: "10.254.240.0/32"},
		{name: "a random address", pool: pool, request: "192.0.2.1/32", random: 0xfff, want: "10.254.255.255/32"},
		{name: "a random free address", pool: pool, taken: []string{"10.254.255.255/32"}, request: "192.0.2.1/32", random: 0xfff, want: "10.254.255.254/32"},
		{name: "a random address of the next prefix if one is full", pool: pool, taken: []string{"10.254.240.0/20"}, request: "192.0.2.1/32", random: 0xffff0123, want: "10.254.225.35/32"},
		{name: "a prefix that is half free is skipped", pool: pool, taken: []string{"10.254.248.0/21", "10.254.240.0/32"}, request: "192.0.2.1/32", want: "10.254.224.0/32"},
		{name: "a prefix that is half free if there is no other", pool: NewPool(prefixes("10.0.0.0/29"), nil), taken: []string{"10.0.0.4/30", "10.0.0.0/31"}, request: "192.0.2.1/32", want: "10.0.0.2/32"},
		{name: "the second CIDR comes after the first", pool: pool, taken: []string{"10.0.0.0/8"}, request: "10.7.0.0/24", keep: true, want: "192.168.255.0/24"},
		{name: "IPv6 stays IPv6", pool: pool, request: "2001:db8::1/128", random: 0x1234, want: "fd00:10:ffff:ffff:ffff:ffff:ffff:f234/128"},
		{name: "an IPv6 range that conflicts is remapped to the upper end", pool: wide, taken: []string{"fd00:10:244::/56"}, request: "fd00:10:244::/56", keep: true, want: "fd6c:6971:ffff:ff00::/56"},
		{name: "a remapped IPv6 range of another size", pool: wide, taken: []string{"fd00:10:244::/56", "fd6c:6971:ffff:ff00::/56"}, request: "fd00:10:244::/48", keep: true, want: "fd6c:6971:fffe::/48"},
		{name: "the exact range is allocated", pool: pool, request: "192.0.2.0/24", keep: true, exact: "10.1.2.0/24", want: "10.1.2.0/24"},
		{name: "the exact range is the range itself", pool: pool, request: "192.0.2.0/24", keep: true, exact: "192.0.2.0/24", want: "192.0.2.0/24"},
		{name: "the exact range is a range of the pool that must not stay", pool: pool, request: "10.7.0.0/16", exact: "10.7.0.0/16", want: "10.7.0.0/16"},
		{name: "the exact range is in use", pool: pool, taken: []string{"10.1.2.4/30"}, request: "192.0.2.0/24", exact: "10.1.2.0/24", refused: "10.1.2.0/24 is in use"},
		{name: "the exact range is reserved", pool: pool, request: "192.0.2.0/24", exact: "10.96.0.0/24", refused: "10.96.0.0/24 is reserved"},
		{name: "the exact range is outside the pool", pool: pool, request: "192.0.2.0/24", keep: true, exact: "192.0.3.0/24", refused: "192.0.3.0/24 is not in its CIDRs"},
		{name: "the exact range is the address itself", pool: pool, request: "192.0.2.1/32", exact: "192.0.2.1/32", refused: "192.0.2.1/32 is not in its CIDRs"},
		{name: "a full pool", pool: pool, taken: []string{"10.0.0.0/8", "192.168.0.0/17"}, request: "10.0.0.0/16", keep: true, refused: "it has no free IPv4 range of the size /16 left"},
		{name: "a pool that is too small", pool: pool, request: "fd00::/16", refused: "it has no free IPv6 range of the size /16 left"},
		{name: "a pool that is all reserved", pool: NewPool(prefixes("10.0.0.0/8"), prefixes("10.0.0.0/8")), request: "10.0.0.0/16", keep: true, refused: "it has no free IPv4 range of the size /16 left"},
		{name: "a pool without a CIDR of the family", pool: NewPool(prefixes("10.0.0.0/8"), nil), request: "2001:db8::1/128", refused: "it has no IPv6 CIDR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := Request{Range: netip.MustParsePrefix(test.request), Keep: test.keep, Chance: test.random}
			if test.exact != "" {
				request.Exact = netip.MustParsePrefix(test.exact)
			}
			got, err := test.pool.Allocate(setOf(prefixes(test.taken...)...), request)
			if test.refused != "" {
				if err == nil || err.Error() != test.refused {
					t.Fatalf("got %v and %v, want %q", got, err, test.refused)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Errorf("got %v and %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestShareAndLargestFreePrefix(t *testing.T) {
	pool := netip.MustParsePrefix("10.0.0.0/8")
	for _, test := range []struct {
		taken   []string
		share   float64
		largest string
	}{
		{nil, 0, "10.0.0.0/8"},
		{[]string{"11.0.0.0/8", "fd00::/16"}, 0, "10.0.0.0/8"},
		{[]string{"10.0.0.0/10"}, 0.25, "10.128.0.0/9"},
		{[]string{"10.255.255.255/32", "10.0.0.0/32"}, 2.0 / (1 << 24), "10.128.0.0/10"},
		{[]string{"10.0.0.0/9", "10.128.0.0/9"}, 1, ""},
		{[]string{"0.0.0.0/1"}, 1, ""},
	} {
		s := setOf(prefixes(test.taken...)...)
		if share := s.Share(pool); share != test.share {
			t.Errorf("with %v: got share %v, want %v", test.taken, share, test.share)
		}
		largest, ok := s.LargestFree(pool)
		if ok != (test.largest != "") || ok && largest.String() != test.largest {
			t.Errorf("with %v: got largest free range %v, want %q", test.taken, largest, test.largest)
		}
	}
}

// anyPrefix draws a prefix within a small range, so that drawn prefixes often overlap.
func anyPrefix(t *rapid.T, label string) netip.Prefix {
	if rapid.Bool().Draw(t, label+" is IPv6") {
		low := rapid.Byte().Draw(t, label)
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 15: low}),
			rapid.IntRange(120, 128).Draw(t, label+" bits")).Masked()
	}
	low := rapid.Byte().Draw(t, label)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, low}),
		rapid.IntRange(24, 32).Draw(t, label+" bits")).Masked()
}

// model is the set as a plain map of single addresses, which Set is compared with.
type model map[netip.Addr]bool

func (m model) put(prefix netip.Prefix, in bool) {
	for a := prefix.Addr(); a.IsValid() && prefix.Contains(a); a = a.Next() {
		if in {
			m[a] = true
		} else {
			delete(m, a)
		}
	}
}

func (m model) overlaps(prefix netip.Prefix) bool {
	for a := range m {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

func TestSetContainsWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		m := model{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			prefix, in := anyPrefix(t, "prefix"), rapid.Bool().Draw(t, "in")
			before := textOf(s)
			next := s.Without(prefix)
			if in {
				next = s.With(prefix)
			}
			if diff := cmp.Diff(before, textOf(s)); diff != "" {
				t.Fatalf("the set that was there changed:\n%s", diff)
			}
			s = next
			m.put(prefix, in)
			queried := anyPrefix(t, "queried")
			if got, want := s.Overlaps(queried), m.overlaps(queried); got != want {
				t.Fatalf("overlaps %v: %v, want %v", queried, got, want)
			}
			bits := rapid.IntRange(queried.Bits(), queried.Addr().BitLen()).Draw(t, "bits")
			want, found := netip.Prefix{}, false
			for a := queried.Addr(); a.IsValid() && queried.Contains(a); a = a.Next() {
				if block := netip.PrefixFrom(a, bits); block.Masked() == block && !m.overlaps(block) {
					want, found = block, true
				}
			}
			if got, ok := s.Free(queried, bits); ok != found || ok && got != want {
				t.Fatalf("the highest free /%d of %v is %v, want %v", bits, queried, got, want)
			}
		}
		again := model{}
		for prefix := range s.Prefixes() {
			if again.overlaps(prefix) {
				t.Fatalf("%v is returned twice", prefix)
			}
			again.put(prefix, true)
		}
		if diff := cmp.Diff(m, again, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatalf("the set differs (-want +got):\n%s", diff)
		}
	})
}

func TestSetDoesNotDependOnTheOrderOfAdditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix { return anyPrefix(t, "prefix") }), 0,
			20).Draw(t, "prefixes")
		shuffled := rapid.Permutation(list).Draw(t, "shuffled")
		if diff := cmp.Diff(textOf(setOf(list...)), textOf(setOf(shuffled...))); diff != "" {
			t.Fatalf("the sets differ:\n%s", diff)
		}
	})
}

// The test allocates and releases ranges in random order. Allocated ranges must not overlap, must have
// the requested size, and all addresses must be free at the end.
func TestAllocationsNeverOverlapAndNothingLeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) netip.Prefix { return anyPrefix(t, "prefix") })
		pool := NewPool(rapid.SliceOfN(draw, 1, 4).Draw(t, "CIDRs"), rapid.SliceOfN(draw, 0, 4).Draw(t, "reserved"))
		var taken Set
		var allocated []netip.Prefix
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(allocated) > 0 && rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				i := rapid.IntRange(0, len(allocated)-1).Draw(t, "returned")
				taken = taken.Without(allocated[i])
				allocated = slices.Delete(allocated, i, i+1)
				continue
			}
			request := Request{Range: anyPrefix(t, "range"), Keep: rapid.Bool().Draw(t, "keep"),
				Chance: rapid.Uint32().Draw(t, "chance")}
			if rapid.IntRange(0, 3).Draw(t, "exact") == 0 {
				request.Exact = netip.PrefixFrom(request.Range.Addr(), request.Range.Bits()).Masked()
			}
			got, err := pool.Allocate(taken, request)
			var isTaken *ErrTaken
			var exhausted *ErrExhausted
			switch {
			case errors.As(err, &isTaken) && request.Exact.IsValid():
				continue
			case errors.As(err, &exhausted):
				left := taken
				if !request.Keep {
					left = taken.With(request.Range)
				}
				for _, block := range pool.blocks {
					if free, ok := left.Free(block, request.Range.Bits()); ok && block.Addr().Is4() == request.Range.Addr().Is4() {
						t.Fatalf("%v is refused with %v free", request, free)
					}
				}
				continue
			case err != nil:
				t.Fatal(err)
			}
			if got.Bits() != request.Range.Bits() || got.Addr().Is4() != request.Range.Addr().Is4() || got.Masked() != got {
				t.Fatalf("%v is allocated for %v", got, request)
			}
			if got == request.Range && !request.Keep && got != request.Exact {
				t.Fatalf("%v is mapped to itself without Keep", got)
			}
			if !pool.holds(got) && !(request.Keep && got == request.Range) {
				t.Fatalf("%v is allocated, which is not of the pool", got)
			}
			if pool.Reserved().Overlaps(got) {
				t.Fatalf("%v is allocated, which is reserved", got)
			}
			for _, other := range allocated {
				if other.Overlaps(got) {
					t.Fatalf("%v is allocated while %v is taken", got, other)
				}
			}
			taken, allocated = taken.With(got), append(allocated, got)
		}
		if diff := cmp.Diff(textOf(setOf(allocated...)), textOf(taken)); diff != "" {
			t.Fatalf("the ranges in use differ from the allocated ranges (-want +got):\n%s", diff)
		}
		for _, prefix := range allocated {
			taken = taken.Without(prefix)
		}
		if taken != (Set{}) {
			t.Fatalf("%v is left over", textOf(taken))
		}
	})
}

func BenchmarkAllocate(b *testing.B) {
	pool := NewPool(prefixes("10.0.0.0/8", "fd6c:6971:8000::/33"), prefixes("10.0.0.0/16", "10.96.0.0/12"))
	for _, n := range []struct {
		name, request string
		taken         int
	}{{"100 used", "192.0.2.1/32", 100}, {"10000 used", "192.0.2.1/32", 10000}, {"100 of IPv6 used", "fd00::/56", 100},
		{"10000 of IPv6 used", "fd00::/56", 10000}} {
		b.Run(n.name, func(b *testing.B) {
			request := Request{Range: netip.MustParsePrefix(n.request)}
			var taken Set
			for range n.taken {
				got, err := pool.Allocate(taken, request)
				if err != nil {
					b.Fatal(err)
				}
				taken = taken.With(got)
			}
			for b.Loop() {
				got, err := pool.Allocate(taken, request)
				if err != nil {
					b.Fatal(err)
				}
				_ = taken.With(got)
			}
		})
	}
}
