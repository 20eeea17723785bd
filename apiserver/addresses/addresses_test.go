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
	var all []netip.Prefix
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
	pool := NewPool(prefixes("10.0.0.0/8", "192.168.0.0/16", "fd00:10::/32"), prefixes("10.255.0.0/16", "10.96.0.0/12", "172.20.0.0/16"))
	wide := NewPool(prefixes("10.0.0.0/8", "fd6c:6971:8000::/33"), prefixes("fd00:10:96::/112"))
	for _, test := range []struct {
		name          string
		pool          Pool
		taken         []string
		request       string
		chance        uint32
		keep          bool
		wanted        string
		want, refused string
	}{
		{name: "a range that conflicts with nothing stays", pool: pool, request: "10.7.0.0/16", keep: true, want: "10.7.0.0/16"},
		{name: "one outside the pool stays, too", pool: pool, request: "100.64.0.0/16", keep: true, want: "100.64.0.0/16"},
		{name: "one that is taken moves", pool: pool, taken: []string{"10.7.1.0/24"}, request: "10.7.0.0/16", keep: true, want: "10.254.0.0/16"},
		{name: "one that is reserved moves", pool: pool, request: "10.96.0.0/16", keep: true, want: "10.254.0.0/16"},
		{name: "one outside the pool that is reserved moves into it", pool: pool, request: "172.20.4.0/24", keep: true, want: "10.254.255.0/24"},
		{name: "an address is one of the pool", pool: pool, request: "192.0.2.1/32", want: "10.254.240.0/32"},
		{name: "which one is chance", pool: pool, request: "192.0.2.1/32", chance: 0xfff, want: "10.254.255.255/32"},
		{name: "of those that are free", pool: pool, taken: []string{"10.254.255.255/32"}, request: "192.0.2.1/32", chance: 0xfff, want: "10.254.255.254/32"},
		{name: "of those nearby", pool: pool, taken: []string{"10.254.240.0/20"}, request: "192.0.2.1/32", chance: 0xffff0123, want: "10.254.225.35/32"},
		{name: "half of which are free", pool: pool, taken: []string{"10.254.248.0/21", "10.254.240.0/32"}, request: "192.0.2.1/32", want: "10.254.224.0/32"},
		{name: "unless there are no such", pool: NewPool(prefixes("10.0.0.0/29"), nil), taken: []string{"10.0.0.4/30", "10.0.0.0/31"}, request: "192.0.2.1/32", want: "10.0.0.2/32"},
		{name: "the second CIDR comes after the first", pool: pool, taken: []string{"10.0.0.0/8"}, request: "10.7.0.0/24", keep: true, want: "192.168.255.0/24"},
		{name: "IPv6 stays IPv6", pool: pool, request: "2001:db8::1/128", chance: 0x1234, want: "fd00:10:ffff:ffff:ffff:ffff:ffff:f234/128"},
		{name: "an IPv6 range that conflicts moves to the upper end", pool: wide, taken: []string{"fd00:10:244::/56"}, request: "fd00:10:244::/56", keep: true, want: "fd6c:6971:ffff:ff00::/56"},
		{name: "one of any size does", pool: wide, taken: []string{"fd00:10:244::/56", "fd6c:6971:ffff:ff00::/56"}, request: "fd00:10:244::/48", keep: true, want: "fd6c:6971:fffe::/48"},
		{name: "what is wanted is given", pool: pool, request: "192.0.2.0/24", keep: true, wanted: "10.1.2.0/24", want: "10.1.2.0/24"},
		{name: "also when it is the range itself", pool: pool, request: "192.0.2.0/24", keep: true, wanted: "192.0.2.0/24", want: "192.0.2.0/24"},
		{name: "but not when it is taken", pool: pool, taken: []string{"10.1.2.4/30"}, request: "192.0.2.0/24", wanted: "10.1.2.0/24", refused: "10.1.2.0/24 is taken"},
		{name: "nor when it is reserved", pool: pool, request: "192.0.2.0/24", wanted: "10.96.0.0/24", refused: "10.96.0.0/24 is reserved"},
		{name: "nor when it is somewhere else", pool: pool, request: "192.0.2.0/24", keep: true, wanted: "192.0.3.0/24", refused: "192.0.3.0/24 is not in its CIDRs"},
		{name: "nor when an address wants to be itself", pool: pool, request: "192.0.2.1/32", wanted: "192.0.2.1/32", refused: "192.0.2.1/32 is not in its CIDRs"},
		{name: "a pool that is full says so", pool: pool, taken: []string{"10.0.0.0/8", "192.168.0.0/17"}, request: "10.0.0.0/16", keep: true, refused: "it has no free IPv4 range of the size /16 left"},
		{name: "also one that is too small", pool: pool, request: "fd00::/16", refused: "it has no free IPv6 range of the size /16 left"},
		{name: "and one that is all reserved", pool: NewPool(prefixes("10.0.0.0/8"), prefixes("10.0.0.0/8")), request: "10.0.0.0/16", keep: true, refused: "it has no free IPv4 range of the size /16 left"},
		{name: "a family without a CIDR is called that", pool: NewPool(prefixes("10.0.0.0/8"), nil), request: "2001:db8::1/128", refused: "it has no IPv6 CIDR"},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := Request{Range: netip.MustParsePrefix(test.request), Keep: test.keep, Chance: test.chance}
			if test.wanted != "" {
				request.Wanted = netip.MustParsePrefix(test.wanted)
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

func TestWhatIsFreeIsSaid(t *testing.T) {
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
			t.Errorf("with %v: %v is taken, not %v", test.taken, share, test.share)
		}
		largest, ok := s.LargestFree(pool)
		if ok != (test.largest != "") || ok && largest.String() != test.largest {
			t.Errorf("with %v: the largest that is free is %v, not %q", test.taken, largest, test.largest)
		}
	}
}

// anyPrefix draws a prefix beneath a small one, so that prefixes often meet.
func anyPrefix(t *rapid.T, label string) netip.Prefix {
	if rapid.Bool().Draw(t, label+" is IPv6") {
		low := rapid.Byte().Draw(t, label)
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 15: low}), rapid.IntRange(120, 128).Draw(t, label+" bits")).Masked()
	}
	low := rapid.Byte().Draw(t, label)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, low}), rapid.IntRange(24, 32).Draw(t, label+" bits")).Masked()
}

// model is a set of addresses, one by one.
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

func TestASetIsWhatWasPutIntoIt(t *testing.T) {
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
			asked := anyPrefix(t, "asked")
			if got, want := s.Overlaps(asked), m.overlaps(asked); got != want {
				t.Fatalf("overlaps %v: %v, want %v", asked, got, want)
			}
			bits := rapid.IntRange(asked.Bits(), asked.Addr().BitLen()).Draw(t, "bits")
			want, found := netip.Prefix{}, false
			for a := asked.Addr(); a.IsValid() && asked.Contains(a); a = a.Next() {
				if block := netip.PrefixFrom(a, bits); block.Masked() == block && !m.overlaps(block) {
					want, found = block, true
				}
			}
			if got, ok := s.Free(asked, bits); ok != found || ok && got != want {
				t.Fatalf("the highest free /%d of %v is %v, want %v", bits, asked, got, want)
			}
		}
		again := model{}
		for prefix := range s.Prefixes() {
			if again.overlaps(prefix) {
				t.Fatalf("%v is said twice", prefix)
			}
			again.put(prefix, true)
		}
		if diff := cmp.Diff(m, again, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatalf("the set differs (-want +got):\n%s", diff)
		}
	})
}

func TestTheOrderInWhichASetWasFilledDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix { return anyPrefix(t, "prefix") }), 0, 20).Draw(t, "prefixes")
		shuffled := rapid.Permutation(list).Draw(t, "shuffled")
		if diff := cmp.Diff(textOf(setOf(list...)), textOf(setOf(shuffled...))); diff != "" {
			t.Fatalf("the sets differ:\n%s", diff)
		}
	})
}

// What is allocated and returned, in any order, never overlaps what is taken or
// reserved, is as large as asked for, and is all there again in the end.
func TestAllocationsNeverOverlapAndNothingLeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) netip.Prefix { return anyPrefix(t, "prefix") })
		pool := NewPool(rapid.SliceOfN(draw, 1, 4).Draw(t, "CIDRs"), rapid.SliceOfN(draw, 0, 4).Draw(t, "reserved"))
		var taken Set
		var given []netip.Prefix
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(given) > 0 && rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				i := rapid.IntRange(0, len(given)-1).Draw(t, "returned")
				taken = taken.Without(given[i])
				given = slices.Delete(given, i, i+1)
				continue
			}
			request := Request{Range: anyPrefix(t, "range"), Keep: rapid.Bool().Draw(t, "keep"), Chance: rapid.Uint32().Draw(t, "chance")}
			if rapid.IntRange(0, 3).Draw(t, "wants") == 0 {
				request.Wanted = netip.PrefixFrom(request.Range.Addr(), request.Range.Bits()).Masked()
			}
			got, err := pool.Allocate(taken, request)
			var isTaken *ErrTaken
			var exhausted *ErrExhausted
			switch {
			case errors.As(err, &isTaken) && request.Wanted.IsValid():
				continue
			case errors.As(err, &exhausted):
				for _, block := range pool.blocks {
					if free, ok := taken.Free(block, request.Range.Bits()); ok && block.Addr().Is4() == request.Range.Addr().Is4() {
						t.Fatalf("%v is refused with %v free", request, free)
					}
				}
				continue
			case err != nil:
				t.Fatal(err)
			}
			if got.Bits() != request.Range.Bits() || got.Addr().Is4() != request.Range.Addr().Is4() || got.Masked() != got {
				t.Fatalf("%v is given for %v", got, request)
			}
			if !pool.holds(got) && !(request.Keep && got == request.Range) {
				t.Fatalf("%v is given, which is not of the pool", got)
			}
			if pool.Reserved().Overlaps(got) {
				t.Fatalf("%v is given, which is reserved", got)
			}
			for _, other := range given {
				if other.Overlaps(got) {
					t.Fatalf("%v is given while %v is taken", got, other)
				}
			}
			taken, given = taken.With(got), append(given, got)
		}
		if diff := cmp.Diff(textOf(setOf(given...)), textOf(taken)); diff != "" {
			t.Fatalf("what is taken differs from what was given (-want +got):\n%s", diff)
		}
		for _, prefix := range given {
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
	}{{"100 taken", "192.0.2.1/32", 100}, {"10000 taken", "192.0.2.1/32", 10000}, {"100 of IPv6 taken", "fd00::/56", 100}, {"10000 of IPv6 taken", "fd00::/56", 10000}} {
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
