// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package netmap

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAddressesKeepTheirPlace(t *testing.T) {
	const milan, other = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", "9f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	mapping := func(cluster, address, mapped string) *v1alpha1.AddressMapping {
		return &v1alpha1.AddressMapping{Spec: v1alpha1.AddressMappingSpec{ClusterID: cluster, Address: address, Mapped: mapped}}
	}
	translation, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{
		ClusterID: milan,
		Local: []v1alpha1.CIDRMapping{
			{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}, {CIDR: "fd00:0:0:100::/56", Mapped: "fd00:0:0:200::/56"}, {CIDR: "10.70.0.0/20", Mapped: "10.71.16.0/20"},
		},
		Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}, {CIDR: "10.9.0.128/25", Mapped: "10.9.0.128/25"}},
	}, []*v1alpha1.AddressMapping{mapping(milan, "192.0.2.1", "10.70.15.254"), mapping(other, "192.0.2.2", "10.70.15.253"), {Spec: v1alpha1.AddressMappingSpec{ClusterID: milan, CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		call          func(netip.Addr) (netip.Addr, bool)
		address, want string
	}{
		{"a pod of ours", translation.Theirs, "10.0.2.2", "10.2.2.2"},
		{"the last one", translation.Theirs, "10.0.255.255", "10.2.255.255"},
		{"one of IPv6", translation.Theirs, "fd00:0:0:1ff::2", "fd00:0:0:2ff::2"},
		{"one that is mapped by itself", translation.Theirs, "192.0.2.1", "10.71.31.254"},
		{"one that is mapped for another cluster", translation.Theirs, "192.0.2.2", ""},
		{"a node of ours", translation.Theirs, "192.168.0.1", ""},
		{"what they call a pod of ours", translation.FromTheirs, "10.2.2.2", "10.0.2.2"},
		{"what they call a mapped address", translation.FromTheirs, "10.71.31.254", "192.0.2.1"},
		{"what they call something else", translation.FromTheirs, "10.0.2.2", ""},
		{"a pod of theirs", translation.Ours, "10.0.2.2", "10.1.2.2"},
		{"one without a conflict", translation.Ours, "10.9.0.130", "10.9.0.130"},
		{"a node of theirs", translation.Ours, "192.168.0.1", ""},
		{"what we call a pod of theirs", translation.FromOurs, "10.1.2.2", "10.0.2.2"},
		{"an IPv4-mapped one", translation.Ours, "::ffff:10.0.2.2", ""},
	} {
		got, ok := test.call(netip.MustParseAddr(test.address))
		if ok != (test.want != "") || ok && got.String() != test.want {
			t.Errorf("%s, %s: %v, %v; want %s", test.name, test.address, got, ok, test.want)
		}
	}
}

func TestATranslationOfWhatIsNoRangeIsRefused(t *testing.T) {
	for _, mapping := range []v1alpha1.CIDRMapping{
		{CIDR: "10.0.0.0/16"}, {CIDR: "10.0.0.0", Mapped: "10.0.0.0/16"}, {CIDR: "10.0.0.0/16", Mapped: "10.0.0.0/17"}, {CIDR: "10.0.0.0/16", Mapped: "fd00::/16"},
	} {
		list := []v1alpha1.CIDRMapping{mapping}
		if _, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{Local: list}, nil); err == nil {
			t.Errorf("%v is taken for ours", mapping)
		}
		if _, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{Remote: list}, nil); err == nil {
			t.Errorf("%v is taken for theirs", mapping)
		}
	}
	for _, mapping := range []v1alpha1.AddressMappingSpec{{Address: "x", Mapped: "10.0.0.1"}, {Address: "10.0.0.1", Mapped: "x"}} {
		if _, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{}, []*v1alpha1.AddressMapping{{Spec: mapping}}); err == nil {
			t.Errorf("%v is taken", mapping)
		}
	}
}

// What one cluster calls an address of the other is what the other says that it
// is called; and there and back is the same address.
func TestBothSidesMeanTheSameAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(9, 32).Draw(t, "bits")
		draw := func(who string, first byte) netip.Prefix {
			raw := [4]byte{first, rapid.Byte().Draw(t, who+" 2"), rapid.Byte().Draw(t, who+" 3"), rapid.Byte().Draw(t, who+" 4")}
			return netip.PrefixFrom(netip.AddrFrom4(raw), bits).Masked()
		}
		romes, milans := draw("rome", 10), draw("milan", 10)
		romeAtMilan, milanAtRome := draw("rome at milan", 11), draw("milan at rome", 12)
		map1 := []v1alpha1.CIDRMapping{{CIDR: romes.String(), Mapped: romeAtMilan.String()}}
		map2 := []v1alpha1.CIDRMapping{{CIDR: milans.String(), Mapped: milanAtRome.String()}}
		rome, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{Local: map1, Remote: map2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		milan, err := NewTranslation(&v1alpha1.TunnelEndpointSpec{Local: map2, Remote: map1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		host := netip.AddrFrom4([4]byte{0, rapid.Byte().Draw(t, "host 2"), rapid.Byte().Draw(t, "host 3"), rapid.Byte().Draw(t, "host 4")})
		pod := at(romes, host)
		if !romes.Contains(pod) {
			t.Fatalf("%v is not in %v", pod, romes)
		}
		there, ok := rome.Theirs(pod)
		if !ok || !romeAtMilan.Contains(there) {
			t.Fatalf("milan calls %v %v", pod, there)
		}
		if called, ok := milan.Ours(pod); !ok || called != there {
			t.Fatalf("rome means %v, and milan %v", there, called)
		}
		for name, back := range map[string]func(netip.Addr) (netip.Addr, bool){"rome": rome.FromTheirs, "milan": milan.FromOurs} {
			if again, ok := back(there); !ok || again != pod {
				t.Fatalf("%s takes %v for %v, not %v", name, there, again, pod)
			}
		}
		if fmt.Sprint(at(romes, there)) != fmt.Sprint(pod) {
			t.Fatalf("the place of %v is lost", pod)
		}
	})
}
