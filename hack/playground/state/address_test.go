// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func prefixes(values ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, v := range values {
		out = append(out, netip.MustParsePrefix(v))
	}
	return out
}

func TestFreeSubnet(t *testing.T) {
	for name, test := range map[string]struct {
		pool  string
		taken []netip.Prefix
		want  string
	}{
		"the first one is free":              {pool: "172.30.0.0/16", want: "172.30.0.0/24"},
		"a route within a subnet takes it":   {pool: "172.30.0.0/16", taken: prefixes("172.30.0.128/25"), want: "172.30.1.0/24"},
		"a wide route takes many":            {pool: "172.30.0.0/16", taken: prefixes("172.30.0.0/17"), want: "172.30.128.0/24"},
		"routes outside of the pool":         {pool: "172.30.0.0/16", taken: prefixes("10.0.0.0/8", "172.31.0.0/16"), want: "172.30.0.0/24"},
		"a pool of one subnet":               {pool: "192.168.7.0/24", want: "192.168.7.0/24"},
		"a route around the pool takes all":  {pool: "172.30.0.0/16", taken: prefixes("172.16.0.0/12")},
		"IPv6 is refused":                    {pool: "fd00::/64"},
		"a pool smaller than one is refused": {pool: "192.168.7.0/25"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FreeSubnet(netip.MustParsePrefix(test.pool), test.taken)
			if test.want == "" {
				if err == nil {
					t.Fatalf("got %s, want an error", got)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Fatalf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestFreeSubnetOverlapsNoTakenSubnet(t *testing.T) {
	pool := netip.MustParsePrefix("172.30.0.0/18")
	rapid.Check(t, func(t *rapid.T) {
		taken := rapid.SliceOf(rapid.Custom(func(t *rapid.T) netip.Prefix {
			address, err := Address(pool, rapid.IntRange(0, 1<<14-1).Draw(t, "address"))
			if err != nil {
				t.Fatal(err)
			}
			return netip.PrefixFrom(address, rapid.IntRange(19, 32).Draw(t, "bits")).Masked()
		})).Draw(t, "taken")
		got, err := FreeSubnet(pool, taken)
		if err != nil {
			// FreeSubnet may fail only if no subnet of the pool is free.
			for i := range 64 {
				candidate, err := Subnet(pool, 24, i)
				if err != nil {
					t.Fatal(err)
				}
				if !overlapsAny(candidate, taken) {
					t.Fatalf("%s is free, and was not found", candidate)
				}
			}
			return
		}
		if !pool.Contains(got.Addr()) || overlapsAny(got, taken) {
			t.Fatalf("%s is outside %s or overlaps %v", got, pool, taken)
		}
	})
}

func TestAddressesAndSubnetsAreCountedFromTheNetworkAddress(t *testing.T) {
	p := netip.MustParsePrefix("10.244.0.0/16")
	address, err := Address(p, 258)
	if err != nil || address.String() != "10.244.1.2" {
		t.Errorf("got %s, %v", address, err)
	}
	subnet, err := Subnet(p, 24, 255)
	if err != nil || subnet.String() != "10.244.255.0/24" {
		t.Errorf("got %s, %v", subnet, err)
	}
	if got, err := Subnet(p, 24, 256); err == nil {
		t.Errorf("a /16 has no 257th /24, got %s", got)
	}
	if got, err := Address(netip.MustParsePrefix("10.0.0.0/30"), 4); err == nil {
		t.Errorf("a /30 has no fifth address, got %s", got)
	}
}

func TestCheckCIDRs(t *testing.T) {
	for name, test := range map[string]struct {
		pods, services string
		valid          bool
	}{
		"the defaults":                    {"10.244.0.0/16", "10.96.0.0/16", true},
		"the smallest":                    {"10.244.0.0/22", "10.96.0.0/24", true},
		"pods and Services overlap":       {"10.96.0.0/12", "10.96.0.0/16", false},
		"pods have no room for the nodes": {"10.244.0.0/24", "10.96.0.0/16", false},
		"host bits are set":               {"10.244.0.1/16", "10.96.0.0/16", false},
		"pods in IPv6":                    {"fd00::/16", "10.96.0.0/16", false},
		"too many Services":               {"10.244.0.0/16", "10.0.0.0/8", false},
		"node addresses within the pods'": {"172.16.0.0/12", "10.96.0.0/16", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckCIDRs("rome", netip.MustParsePrefix(test.pods), netip.MustParsePrefix(test.services),
				netip.MustParsePrefix("172.30.0.0/16"))
			if (err == nil) != test.valid {
				t.Fatalf("valid is %v, got %v", test.valid, err)
			}
		})
	}
}

func TestCheckName(t *testing.T) {
	got := map[string]bool{}
	for _, name := range []string{"demo", "a", "rome-2", "", "Rome", "2rome", "rome-", "ro_me", "bin", "../up",
		"abcdefghijklmnopqrstu"} {
		got[name] = CheckName("cluster", name) == nil
	}
	want := map[string]bool{"demo": true, "a": true, "rome-2": true, "": false, "Rome": false, "2rome": false,
		"rome-": false,
		"ro_me": false, "bin": false, "../up": false, "abcdefghijklmnopqrstu": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
