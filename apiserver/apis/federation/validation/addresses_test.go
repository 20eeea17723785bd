// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestCIDRMustBeRoutableAndCanonical(t *testing.T) {
	path := field.NewPath("cidr")
	for _, test := range []struct{ text, message string }{
		{"10.1.0.0/16", ""},
		{"10.0.0.0/8", ""},
		{"192.0.2.1/32", ""},
		{"100.64.0.0/10", ""},
		{"fd00:1::/64", ""},
		{"2001:db8::1/128", ""},
		{"", "must be a CIDR"},
		{"10.1.0.0", "must be a CIDR"},
		{"10.1.0.0/33", "must be a CIDR"},
		{"10.1.0.0/-1", "must be a CIDR"},
		{"10.1.0.0/016", "must be a CIDR"},
		{"10.01.0.0/16", "must be a CIDR"},
		{"10.1/16", "must be a CIDR"},
		{"10.1.0.0/16 ", "must be a CIDR"},
		{"10.1.0.0/255.255.0.0", "must be a CIDR"},
		{"fe80::%eth0/64", "must be a CIDR"},
		{"milan", "must be a CIDR"},
		{strings.Repeat("1", 5000), "must be a CIDR"},
		{"0.0.0.0/0", "prefix length of at least 8"},
		{"::/0", "prefix length of at least 8"},
		{"10.0.0.0/7", "prefix length of at least 8"},
		{"10.1.2.3/16", "for example 10.1.0.0/16"},
		{"fd00::1/64", "for example fd00::/64"},
		{"0.1.0.0/16", "unspecified"},
		{"127.0.0.0/8", "loopback"},
		{"127.0.0.1/32", "loopback"},
		{"169.254.1.0/24", "link-local"},
		{"224.0.0.0/24", "multicast"},
		{"240.0.0.0/8", "broadcast"},
		{"255.255.255.255/32", "broadcast"},
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::/8", "must not overlap ::/128"},
		{"fe80::/64", "link-local"},
		{"ff02::/16", "multicast"},
		{"::ffff:10.1.0.0/112", "IPv4-mapped"},
		{"::ffff:0:0/96", "IPv4-mapped"},
		{"FD00:1::/64", "canonical form: fd00:1::/64"},
		{"fd00:1:0::/64", "canonical form: fd00:1::/64"},
	} {
		t.Run(test.text[:min(len(test.text), 30)], func(t *testing.T) {
			_, errs := cidr(test.text, path)
			if test.message == "" {
				if len(errs) > 0 {
					t.Error(errs)
				}
				return
			}
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), test.message) || len(errs[0].Error()) > 300 {
				t.Errorf("got %v, want %q", errs, test.message)
			}
		})
	}
}

func TestAnyCIDRsMustHaveNoHostBits(t *testing.T) {
	for _, test := range []struct{ text, message string }{
		{"10.1.0.0/16", ""},
		{"0.0.0.0/0", ""},
		{"169.254.20.10/32", ""},
		{"fe80::/10", ""},
		{"10.1.2.3/16", "flag[1]: Invalid value: \"10.1.2.3/16\": must have no host bits, for example 10.1.0.0/16"},
		{"10.1.0.0", "must be a CIDR"},
		{"all", "must be a CIDR"},
	} {
		errs := AnyCIDRs([]string{"10.9.0.0/16", test.text}, field.NewPath("flag"))
		if message := errs.ToAggregate(); (message != nil) != (test.message != "") ||
			message != nil && !strings.Contains(message.Error(), test.message) {
			t.Errorf("%s: got %v, want %q", test.text, message, test.message)
		}
	}
}

func TestAddressMustBeRoutableAndCanonical(t *testing.T) {
	path := field.NewPath("address")
	for text, good := range map[string]bool{
		"10.1.2.3": true, "2001:db8::1": true, "": false, "10.1.2.3/32": false, "010.1.2.3": false, "10.1.2": false, "127.0.0.1": false, "0.0.0.0": false,
		"::": false, "::1": false, "169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "2001:db8::1%eth0": false, "224.0.0.1": false, "ff02::1": false,
		"255.255.255.255": false, "::ffff:10.1.2.3": false, "2001:DB8::1": false, "milan.example.org": false,
	} {
		if _, errs := address(text, path); (len(errs) == 0) != good {
			t.Errorf("%q: %v", text, errs)
		}
	}
}

func aPool() *federation.AddressPool {
	return &federation.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: federation.AddressPoolSpec{
			CIDRs:    []string{"10.0.0.0/8", "192.168.0.0/16", "fd00:10::/32"},
			Reserved: []string{"10.244.0.0/16", "10.244.0.0/20", "172.18.0.0/16", "fd00:10:96::/112"},
		},
	}
}

func numberedCIDR(i int) string {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24).String()
}

func TestValidateAddressPool(t *testing.T) {
	runCreate(t, aPool(), ValidateAddressPool, map[string]wrong[*federation.AddressPool]{
		"no name":              {func(p *federation.AddressPool) { p.Name = "" }, []string{"metadata.name"}},
		"no CIDR":              {func(p *federation.AddressPool) { p.Spec.CIDRs = nil }, []string{"spec.cidrs"}},
		"a malformed CIDR":     {func(p *federation.AddressPool) { p.Spec.CIDRs[1] = "10" }, []string{"spec.cidrs[1]"}},
		"a default route":      {func(p *federation.AddressPool) { p.Spec.CIDRs[1] = "0.0.0.0/0" }, []string{"spec.cidrs[1]"}},
		"CIDRs that overlap":   {func(p *federation.AddressPool) { p.Spec.CIDRs[1] = "10.1.0.0/16" }, []string{"spec.cidrs[1]"}},
		"a CIDR twice":         {func(p *federation.AddressPool) { p.Spec.CIDRs[1] = "10.0.0.0/8" }, []string{"spec.cidrs[1]"}},
		"too many CIDRs":       {func(p *federation.AddressPool) { p.Spec.CIDRs = many(maxCIDRs, numberedCIDR) }, []string{"spec.cidrs"}},
		"loopback is reserved": {func(p *federation.AddressPool) { p.Spec.Reserved[3] = "127.0.0.0/8" }, []string{"spec.reserved[3]"}},
		"a range twice":        {func(p *federation.AddressPool) { p.Spec.Reserved[3] = "10.244.0.0/16" }, []string{"spec.reserved[3]"}},
		"too many ranges":      {func(p *federation.AddressPool) { p.Spec.Reserved = many(MaxReservedCIDRs, numberedCIDR) }, []string{"spec.reserved"}},
		"no CIDR and a malformed range": {func(p *federation.AddressPool) {
			p.Spec = federation.AddressPoolSpec{Reserved: []string{"x"}}
		}, []string{"spec.cidrs", "spec.reserved[0]"}},
	})
	good := aPool()
	good.Status = federation.AddressPoolStatus{ObservedGeneration: 1, Mappings: 2,
		CIDRs: []federation.AddressPoolCIDRStatus{
			{CIDR: "10.0.0.0/8", UsedPercent: 3, LargestFree: "10.0.0.0/9"}, {CIDR: "192.168.0.0/16", UsedPercent: 100},
		}}
	runUpdate(t, good, ValidateAddressPoolStatusUpdate, map[string]wrong[*federation.AddressPool]{
		"a negative generation": {func(p *federation.AddressPool) { p.Status.ObservedGeneration = -1 }, []string{"status.observedGeneration"}},
		"a negative count":      {func(p *federation.AddressPool) { p.Status.Mappings = -1 }, []string{"status.mappings"}},
		"a malformed CIDR":      {func(p *federation.AddressPool) { p.Status.CIDRs[0].CIDR = "x" }, []string{"status.cidrs[0].cidr"}},
		"a CIDR twice":          {func(p *federation.AddressPool) { p.Status.CIDRs[0].CIDR = "192.168.0.0/16" }, []string{"status.cidrs[1].cidr"}},
		"more than 100 percent": {func(p *federation.AddressPool) { p.Status.CIDRs[0].UsedPercent = 101 }, []string{"status.cidrs[0].usedPercent"}},
		"a malformed range":     {func(p *federation.AddressPool) { p.Status.CIDRs[0].LargestFree = "x" }, []string{"status.cidrs[0].largestFree"}},
		"too many": {func(p *federation.AddressPool) {
			p.Status.CIDRs = many(maxCIDRs, func(i int) federation.AddressPoolCIDRStatus {
				return federation.AddressPoolCIDRStatus{CIDR: numberedCIDR(i)}
			})
		}, []string{"status.cidrs"}},
	})
}

func aMapping() *federation.AddressMapping {
	return &federation.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Name: "milan-pods", Namespace: "liqo-tenant-milan"},
		Spec: federation.AddressMappingSpec{ClusterID: milanID, Pool: "default", CIDR: "10.244.0.0/16",
			Mapped: "10.1.0.0/16"},
	}
}

func TestValidateAddressMapping(t *testing.T) {
	to := func(change func(*federation.AddressMappingSpec)) func(*federation.AddressMapping) {
		return func(m *federation.AddressMapping) { change(&m.Spec) }
	}
	runCreate(t, aMapping(), ValidateAddressMapping, map[string]wrong[*federation.AddressMapping]{
		"no cluster":             {to(func(s *federation.AddressMappingSpec) { s.ClusterID = "" }), []string{"spec.clusterID"}},
		"no pool":                {to(func(s *federation.AddressMappingSpec) { s.Pool = "" }), []string{"spec.pool"}},
		"a path as a pool":       {to(func(s *federation.AddressMappingSpec) { s.Pool = "../x" }), []string{"spec.pool"}},
		"nothing to map":         {to(func(s *federation.AddressMappingSpec) { s.CIDR = "" }), []string{"spec.cidr"}},
		"two things to map":      {to(func(s *federation.AddressMappingSpec) { s.Address = "192.0.2.1" }), []string{"spec.address"}},
		"a malformed CIDR":       {to(func(s *federation.AddressMappingSpec) { s.CIDR = "10" }), []string{"spec.cidr"}},
		"bits beyond its length": {to(func(s *federation.AddressMappingSpec) { s.CIDR = "10.244.0.1/16" }), []string{"spec.cidr"}},
		"a default route":        {to(func(s *federation.AddressMappingSpec) { s.CIDR = "0.0.0.0/0" }), []string{"spec.cidr"}},
		"another size":           {to(func(s *federation.AddressMappingSpec) { s.Mapped = "10.1.0.0/17" }), []string{"spec.mapped"}},
		"another family":         {to(func(s *federation.AddressMappingSpec) { s.Mapped = "fd00::/16" }), []string{"spec.mapped"}},
		"a malformed mapping":    {to(func(s *federation.AddressMappingSpec) { s.Mapped = "x" }), []string{"spec.mapped"}},
		"an address for a range": {to(func(s *federation.AddressMappingSpec) { s.Mapped = "10.1.0.0" }), []string{"spec.mapped"}},
		"a range for an address": {toAddress("192.0.2.1", "10.1.0.0/16"), []string{"spec.mapped"}},
		"a link-local address":   {toAddress("169.254.169.254", ""), []string{"spec.address"}},
		"an IPv4-mapped address": {toAddress("::ffff:10.0.0.1", ""), []string{"spec.address"}},
		"an address to loopback": {toAddress("192.0.2.1", "127.0.0.1"), []string{"spec.mapped"}},
		"an address with a zone": {toAddress("2001:db8::1%a", ""), []string{"spec.address"}},
		"a remapped range":       {to(func(s *federation.AddressMappingSpec) { s.Remap = true }), nil},
		"a remapped address": {func(m *federation.AddressMapping) {
			toPorts(mappingPort(corev1.ProtocolTCP, 443))(m)
			m.Spec.Remap = true
		}, []string{"spec.remap"}},
		"an address with a port":   {toPorts(mappingPort(corev1.ProtocolTCP, 443)), nil},
		"an address without ports": {toPorts(nil), []string{"spec.ports"}},
		"a pod on another provider": {func(m *federation.AddressMapping) {
			toPorts(nil)(m)
			ofPod(m)
		}, nil},
		"a pod that an administrator maps": {func(m *federation.AddressMapping) {
			toPorts(nil)(m)
			ofPod(m)
			m.Labels = nil
		}, []string{"spec.ports"}},
		"ports of a range":         {to(func(s *federation.AddressMappingSpec) { s.Ports = mappingPort(corev1.ProtocolTCP, 443) }), []string{"spec.ports"}},
		"an invalid port":          {toPorts(mappingPort(corev1.ProtocolTCP, 0)), []string{"spec.ports[0].port"}},
		"a protocol without ports": {toPorts(mappingPort("ICMP", 8)), []string{"spec.ports[0].protocol"}},
		"a port twice":             {toPorts(append(mappingPort(corev1.ProtocolUDP, 53), mappingPort(corev1.ProtocolUDP, 53)...)), []string{"spec.ports[1]"}},
		"too many ports":           {toPorts(make([]federation.AddressMappingPort, 33)), []string{"spec.ports"}},
		"an address with letters":  {toAddress("api", ""), []string{"spec.address"}},
	})
	runUpdate(t, aMapping(), ValidateAddressMappingUpdate, map[string]wrong[*federation.AddressMapping]{
		"another mapping": {to(func(s *federation.AddressMappingSpec) { s.Mapped = "10.2.0.0/16" }), []string{"spec"}},
		"another range":   {to(func(s *federation.AddressMappingSpec) { s.CIDR = "10.2.0.0/16" }), []string{"spec"}},
		"another cluster": {to(func(s *federation.AddressMappingSpec) { s.ClusterID = romeID }), []string{"spec"}},
		"remap":           {to(func(s *federation.AddressMappingSpec) { s.Remap = true }), []string{"spec"}},
		"another pool":    {to(func(s *federation.AddressMappingSpec) { s.Pool = "other" }), []string{"spec"}},
		"ports":           {to(func(s *federation.AddressMappingSpec) { s.Ports = mappingPort(corev1.ProtocolTCP, 443) }), []string{"spec.ports"}},
	})
}

func mappingPort(protocol corev1.Protocol, port int32) []federation.AddressMappingPort {
	return []federation.AddressMappingPort{{Protocol: protocol, Port: port}}
}

// toPorts returns a function that replaces the CIDR of a mapping by an address, and sets its ports.
func toPorts(ports []federation.AddressMappingPort) func(*federation.AddressMapping) {
	return func(m *federation.AddressMapping) {
		m.Spec.CIDR, m.Spec.Address, m.Spec.Mapped, m.Spec.Ports = "", "192.0.2.1", "", ports
	}
}

// toAddress returns a function that replaces the CIDR of a mapping by an address with a port.
func toAddress(address, mapped string) func(*federation.AddressMapping) {
	return func(m *federation.AddressMapping) {
		toPorts(mappingPort(corev1.ProtocolTCP, 443))(m)
		m.Spec.Address, m.Spec.Mapped = address, mapped
	}
}

// ofPod sets the metadata of mappings that the controllers create for pods.
func ofPod(m *federation.AddressMapping) {
	m.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	m.Annotations = map[string]string{v1alpha1.AnnotationOriginPod: "shop/db-0"}
}

func TestPortsOfAnAddressMappingMayChange(t *testing.T) {
	none, one := []federation.AddressMappingPort(nil), mappingPort(corev1.ProtocolTCP, 443)
	other := append(mappingPort(corev1.ProtocolTCP, 53), mappingPort(corev1.ProtocolUDP, 53)...)
	for _, test := range []struct {
		name        string
		before, now []federation.AddressMappingPort
		pod         bool
		// want is the field of the error; empty if there is none.
		want string
	}{
		{"other ports", one, other, false, ""},
		{"an invalid port", one, mappingPort(corev1.ProtocolTCP, 70000), false, "spec.ports[0].port"},
		{"no ports any more", one, none, false, "spec.ports"},
		{"a mapping of v0.1.0", none, none, false, ""},
		{"a mapping of v0.1.0 gets ports", none, one, false, ""},
		{"no ports of a pod any more", one, none, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			old, changed := aMapping(), aMapping()
			toPorts(test.before)(old)
			toPorts(test.now)(changed)
			if test.pod {
				ofPod(old)
				ofPod(changed)
			}
			old.ResourceVersion, changed.ResourceVersion = "1", "1"
			var got []string
			for _, err := range ValidateAddressMappingUpdate(changed, old) {
				got = append(got, err.Field)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("errors of %q, want %q", got, test.want)
			}
		})
	}
}

// expectRoutable fails the test if text, which validation accepted, is a CIDR that cannot be routed
// between clusters.
func expectRoutable(t *testing.T, text string) netip.Prefix {
	t.Helper()
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	addr := prefix.Addr()
	if addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() ||
		addr.IsLinkLocalUnicast() || prefix != prefix.Masked() || prefix.Bits() < 8 {
		t.Errorf("%q is accepted", text)
	}
	return prefix
}

func FuzzAddressPool(f *testing.F) {
	fuzzObject(f, func(t *testing.T, pool *federation.AddressPool) field.ErrorList {
		if errs := ValidateAddressPool(pool); len(errs) > 0 {
			return errs
		}
		var seen []netip.Prefix
		for _, text := range pool.Spec.CIDRs {
			prefix := expectRoutable(t, text)
			for _, other := range seen {
				if other.Overlaps(prefix) {
					t.Errorf("%s and %s are accepted", other, prefix)
				}
			}
			seen = append(seen, prefix)
		}
		for _, text := range pool.Spec.Reserved {
			expectRoutable(t, text)
		}
		return nil
	}, &v1alpha1.AddressPool{ObjectMeta: meta("default", ""),
		Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"10.0.0.0/8", "fd00::/32"}, Reserved: []string{"10.96.0.0/12"}}})
}

func FuzzAddressMapping(f *testing.F) {
	of := func(spec v1alpha1.AddressMappingSpec) *v1alpha1.AddressMapping {
		spec.ClusterID = milanID
		return &v1alpha1.AddressMapping{ObjectMeta: meta("pods", "liqo-tenant-milan"), Spec: spec}
	}
	fuzzObject(f, func(t *testing.T, mapping *federation.AddressMapping) field.ErrorList {
		if errs := ValidateAddressMapping(mapping); len(errs) > 0 {
			return errs
		}
		source := expectRoutable(t, mapping.Spec.CIDR+mapping.Spec.Address)
		if mapping.Spec.Mapped != "" {
			if mapped := expectRoutable(t, mapping.Spec.Mapped); mapped.Bits() != source.Bits() ||
				mapped.Addr().Is4() != source.Addr().Is4() {
				t.Errorf("%s is accepted for %s", mapped, source)
			}
		}
		return nil
	}, of(v1alpha1.AddressMappingSpec{CIDR: "10.244.0.0/16"}),
		of(v1alpha1.AddressMappingSpec{Address: "2001:db8::1", Mapped: "fd00::1",
			Ports: []v1alpha1.AddressMappingPort{{Protocol: corev1.ProtocolTCP, Port: 443}}}))
}
