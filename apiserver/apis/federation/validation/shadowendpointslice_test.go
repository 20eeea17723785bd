// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
)

func endpointPort(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: ptr.To(name), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(number)}
}

func goodSlice() *federation.ShadowEndpointSlice {
	return &federation.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-abcde", Namespace: "shop-rome",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Spec: federation.ShadowEndpointSliceSpec{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{endpointPort("http", 80),
				{Name: ptr.To(""), Protocol: ptr.To(corev1.ProtocolUDP), AppProtocol: ptr.To("example.com/x")}},
			Endpoints: []federation.ShadowEndpoint{{Addresses: []string{"10.0.0.1"}, Hostname: ptr.To("web-0")},
				{Addresses: []string{"10.0.0.2"}}},
		},
	}
}

func TestValidateShadowEndpointSlice(t *testing.T) {
	spec := map[string]wrong[*federation.ShadowEndpointSlice]{
		"an invalid label": {func(s *federation.ShadowEndpointSlice) { s.Labels["a b"] = "c" }, []string{"metadata.labels"}},
		"too large annotations": {func(s *federation.ShadowEndpointSlice) {
			s.Annotations = map[string]string{"a": strings.Repeat("x", maxPeersMetadata)}
		}, []string{"metadata"}},
		"too large finalizers": {func(s *federation.ShadowEndpointSlice) {
			s.Finalizers = many(maxPeersMetadata/10, func(int) string { return "example.com/hold" })
		}, []string{"metadata"}},
		"too large owners": {func(s *federation.ShadowEndpointSlice) {
			s.OwnerReferences = many(maxPeersMetadata/10, func(i int) metav1.OwnerReference {
				return metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: types.UID(fmt.Sprint(i))}
			})
		}, []string{"metadata"}},
		"no family": {func(s *federation.ShadowEndpointSlice) { s.Spec.AddressType, s.Spec.Endpoints = "", nil }, []string{"spec.addressType"}},
		"names instead of addresses": {func(s *federation.ShadowEndpointSlice) {
			s.Spec.AddressType, s.Spec.Endpoints = discoveryv1.AddressTypeFQDN, nil
		}, []string{"spec.addressType"}},
		"two ports of one name":      {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[1] = endpointPort("http", 81) }, []string{"spec.ports[1].name"}},
		"an invalid name of a port":  {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].Name = ptr.To("a b") }, []string{"spec.ports[0].name"}},
		"an unknown protocol":        {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].Protocol = ptr.To(corev1.Protocol("ICMP")) }, []string{"spec.ports[0].protocol"}},
		"no protocol":                {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].Protocol = nil }, []string{"spec.ports[0].protocol"}},
		"port 0":                     {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].Port = ptr.To[int32](0) }, []string{"spec.ports[0].port"}},
		"port 65536":                 {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].Port = ptr.To[int32](65536) }, []string{"spec.ports[0].port"}},
		"a bad application protocol": {func(s *federation.ShadowEndpointSlice) { s.Spec.Ports[0].AppProtocol = ptr.To("a b") }, []string{"spec.ports[0].appProtocol"}},
		"too many ports": {func(s *federation.ShadowEndpointSlice) {
			s.Spec.Ports = many(maxEndpointPorts,
				func(i int) discoveryv1.EndpointPort { return endpointPort(fmt.Sprint("p", i), 1) })
		}, []string{"spec.ports"}},
		"too many endpoints": {func(s *federation.ShadowEndpointSlice) {
			s.Spec.Endpoints = many(maxEndpoints,
				func(int) federation.ShadowEndpoint { return federation.ShadowEndpoint{Addresses: []string{"10.0.0.1"}} })
		}, []string{"spec.endpoints"}},
		"too many addresses": {func(s *federation.ShadowEndpointSlice) {
			s.Spec.Endpoints[0].Addresses = many(maxEndpointAddresses, func(int) string { return "10.0.0.1" })
		}, []string{"spec.endpoints"}},
		"an endpoint without address": {func(s *federation.ShadowEndpointSlice) { s.Spec.Endpoints[1].Addresses = nil }, []string{"spec.endpoints[1].addresses"}},
		"a bad hostname":              {func(s *federation.ShadowEndpointSlice) { s.Spec.Endpoints[0].Hostname = ptr.To("a.b") }, []string{"spec.endpoints[0].hostname"}},
		"an address of loopback":      {func(s *federation.ShadowEndpointSlice) { s.Spec.Endpoints[1].Addresses = []string{"127.0.0.1"} }, []string{"spec.endpoints[1].addresses[0]"}},
	}
	runCreate(t, goodSlice(), ValidateShadowEndpointSlice, spec)
	spec["another family"] = wrong[*federation.ShadowEndpointSlice]{func(s *federation.ShadowEndpointSlice) {
		s.Spec.AddressType, s.Spec.Endpoints = discoveryv1.AddressTypeIPv6, nil
	}, []string{"spec.addressType"}}
	runUpdate(t, goodSlice(), ValidateShadowEndpointSliceUpdate, spec)
	runUpdate(t, goodSlice(), ValidateShadowEndpointSliceStatusUpdate, map[string]wrong[*federation.ShadowEndpointSlice]{
		"an unknown status": {func(s *federation.ShadowEndpointSlice) {
			s.Status.Conditions = []metav1.Condition{condition(func(c *metav1.Condition) { c.Status = "Maybe" })}
		}, []string{"status.conditions[0].status"}},
	})
}

func TestReflectedEndpointsSanitised(t *testing.T) {
	path := field.NewPath("address")
	for family, addresses := range map[discoveryv1.AddressType][]string{
		discoveryv1.AddressTypeIPv4: {"10.0.0.1", "192.0.2.1", "172.16.255.255"},
		discoveryv1.AddressTypeIPv6: {"2001:db8::1", "fd00::2"},
	} {
		for _, good := range addresses {
			if errs := EndpointAddress(good, family, path); len(errs) > 0 {
				t.Errorf("%s is refused: %v", good, errs)
			}
		}
	}
	for _, bad := range []string{
		"", "web", "127.0.0.1", "127.8.8.8", "0.0.0.0", "169.254.169.254", "224.0.0.1", "239.255.255.250", "255.255.255.255",
		"010.0.0.1", "10.1", "10.0.0.1/32",
		"::1", "::", "fe80::1", "fe80::1%eth0", "2001:db8::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
		"2001:DB8::1", "2001:db8:0::1", strings.Repeat("1", 1000),
	} {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			if errs := EndpointAddress(bad, family, path); len(errs) == 0 {
				t.Errorf("%q is accepted as %s", bad, family)
			}
		}
	}
	if len(EndpointAddress("10.0.0.1", discoveryv1.AddressTypeIPv6, path)) == 0 ||
		len(EndpointAddress("fd00::1", discoveryv1.AddressTypeIPv4, path)) == 0 {
		t.Error("an address of the other family is accepted")
	}
}

func TestNoEndpointLeadsToANodeOrItsLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		family, length := discoveryv1.AddressTypeIPv4, 4
		if rapid.Bool().Draw(t, "six") {
			family, length = discoveryv1.AddressTypeIPv6, 16
		}
		address, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "bytes"))
		accepted := len(EndpointAddress(address.String(), family, field.NewPath("address"))) == 0
		if want := address.IsGlobalUnicast() && !address.Is4In6(); accepted != want {
			t.Errorf("%s is accepted: %t, want %t", address, accepted, want)
		}
	})
}

func FuzzShadowEndpointSlice(f *testing.F) {
	fuzzObject(f, func(_ *testing.T, s *federation.ShadowEndpointSlice) field.ErrorList {
		return ValidateShadowEndpointSlice(s)
	}, goodSlice())
}
