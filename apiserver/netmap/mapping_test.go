// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestTranslationKeepsHostBits(t *testing.T) {
	translation, err := ParseTranslation(
		[]v1alpha1.CIDRMapping{
			{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}, {CIDR: "fd00:0:0:100::/56", Mapped: "fd00:0:0:200::/56"},
			{CIDR: "10.70.0.0/20", Mapped: "192.168.16.0/20"}, {CIDR: "10.72.1.2/32", Mapped: "10.80.9.9/32"},
			{CIDR: "10.74.0.0/15", Mapped: "172.16.0.0/15"},
		},
		[]v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"},
			{CIDR: "10.9.0.128/25", Mapped: "10.9.0.128/25"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		mappings      CIDRMappings
		address, want string
	}{
		{"a local pod", translation.Local, "10.0.2.2", "10.2.2.2"},
		{"the last local one", translation.Local, "10.0.255.255", "10.2.255.255"},
		{"IPv6", translation.Local, "fd00:0:0:1ff::2", "fd00:0:0:2ff::2"},
		{"one within a byte", translation.Local, "10.70.1.2", "192.168.17.2"},
		{"a single address", translation.Local, "10.72.1.2", "10.80.9.9"},
		{"the last one within a byte", translation.Local, "10.75.255.255", "172.17.255.255"},
		{"a local node", translation.Local, "192.168.0.1", ""},
		{"a remote pod", translation.Remote, "10.0.2.2", "10.1.2.2"},
		{"one without a conflict", translation.Remote, "10.9.0.130", "10.9.0.130"},
		{"a remote node", translation.Remote, "192.168.0.1", ""},
		{"an IPv4-mapped one", translation.Remote, "::ffff:10.0.2.2", ""},
	} {
		got, ok := test.mappings.Translate(netip.MustParseAddr(test.address))
		if ok != (test.want != "") || ok && got.String() != test.want {
			t.Errorf("%s, %s: %v, %v; want %s", test.name, test.address, got, ok, test.want)
		}
	}
}

func TestMalformedMappingsAreRefused(t *testing.T) {
	for _, mapping := range []v1alpha1.CIDRMapping{
		{CIDR: "10.0.0.0/16"}, {CIDR: "10.0.0.0", Mapped: "10.0.0.0/16"}, {CIDR: "10.0.0.0/16", Mapped: "10.0.0.0/17"}, {CIDR: "10.0.0.0/16", Mapped: "fd00::/16"},
	} {
		list := []v1alpha1.CIDRMapping{mapping}
		if _, err := ParseTranslation(list, nil); err == nil {
			t.Errorf("%v is accepted as a local CIDR", mapping)
		}
		if _, err := ParseTranslation(nil, list); err == nil {
			t.Errorf("%v is accepted as a remote CIDR", mapping)
		}
	}
}

func TestTranslationIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(1, 32).Draw(t, "bits")
		drawn := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
		})
		pod := drawn.Draw(t, "pod")
		mapping := CIDRMapping{
			CIDR: netip.PrefixFrom(pod, bits).Masked(), Mapped: netip.PrefixFrom(drawn.Draw(t, "mapped"), bits).Masked(),
		}
		translated, ok := mapping.Translate(pod)
		if !ok || !mapping.Mapped.Contains(translated) {
			t.Fatalf("%v becomes %v of %v", pod, translated, mapping.Mapped)
		}
		back := CIDRMapping{CIDR: mapping.Mapped, Mapped: mapping.CIDR}
		if again, ok := back.Translate(translated); !ok || again != pod {
			t.Fatalf("translating %v back: got %v, want %v", translated, again, pod)
		}
	})
}

func TestCoversNeedsAllOfACIDR(t *testing.T) {
	cidrs := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/48")}
	for cidr, want := range map[string]bool{
		"10.0.0.0/16": true, "10.0.3.0/24": true, "10.0.0.0/15": false, "10.1.0.0/24": false, "fd00::/64": true, "fd00::/40": false,
	} {
		if got := Covers(cidrs, netip.MustParsePrefix(cidr)); got != want {
			t.Errorf("%v covers %s: %v", cidrs, cidr, got)
		}
	}
}
