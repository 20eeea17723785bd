// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addressrange

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Ledgers are stored in etcd: another version of the server must read them after an upgrade.
func TestStoredFormOfAnAllocationNeverChanges(t *testing.T) {
	for want, allocated := range map[string]Allocation{
		`{"prefix":"10.1.0.0/16","pool":"default"}`:    {netip.MustParsePrefix("10.1.0.0/16"), "default"},
		`{"prefix":"fd00::1/128","pool":"external-1"}`: {netip.MustParsePrefix("fd00::1/128"), "external-1"},
	} {
		encoded, err := json.Marshal(allocated)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(encoded)); diff != "" {
			t.Errorf("the form (-want +got):\n%s", diff)
		}
		var decoded Allocation
		if err := json.Unmarshal(encoded, &decoded); err != nil || decoded != allocated {
			t.Errorf("decoded: got %v, %v, want %v", decoded, err, allocated)
		}
	}
}

// The sum must be empty after all allocations were removed, in whatever order.
func TestSumWithoutMappingsIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Allocation
		seen := map[netip.Addr]bool{}
		for _, low := range rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "addresses") {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, low})
			if !seen[addr] {
				all = append(all, Allocation{netip.PrefixFrom(addr, 32),
					rapid.SampledFrom([]string{"default", "external"}).Draw(t, "pool")})
			}
			seen[addr] = true
		}
		var s sum
		for _, allocated := range all {
			s = s.Plus(allocated)
		}
		total := int64(0)
		for _, n := range s.mappings {
			total += n
		}
		if total != int64(len(all)) {
			t.Fatalf("got %d mappings, want %d", total, len(all))
		}
		for _, allocated := range rapid.Permutation(all).Draw(t, "order") {
			if !s.set.Overlaps(allocated.Prefix) {
				t.Fatalf("%v is not allocated", allocated)
			}
			s = s.Minus(allocated)
		}
		if s.set.Overlaps(netip.MustParsePrefix("10.0.0.0/8")) || len(s.mappings) != 0 {
			t.Fatalf("%v is left over", s)
		}
	})
}
