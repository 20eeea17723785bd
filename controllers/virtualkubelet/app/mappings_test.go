// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/fake"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

func TestMappingsAreFoundByTheirAddress(t *testing.T) {
	mapping := func(name, address, mapped string) *v1alpha1.AddressMapping {
		return &v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name},
			Spec:       v1alpha1.AddressMappingSpec{Address: address, Mapped: mapped},
		}
	}
	client := fake.NewSimpleClientset(
		mapping("b", "10.3.0.1", "10.70.0.2"),
		mapping("a", "10.3.0.1", "10.70.0.1"),
		mapping("c", "fd00::1", "fd70::1"),
		&v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "range"},
			Spec:       v1alpha1.AddressMappingSpec{CIDR: "10.3.0.0/24", Mapped: "10.9.0.0/24"},
		},
	)
	i := &informers{
		mappings: federationinformers.NewAddressMappingInformer(
			client, "liqo", 0, cache.Indexers{byAddress: addressOf},
		),
	}
	addresses := make(chan string, 10)
	if _, err := i.mappings.AddEventHandler(onMapping(func(address string) { addresses <- address })); err != nil {
		t.Fatal(err)
	}
	go i.mappings.Run(t.Context().Done())
	var reported []string
	for range 3 {
		select {
		case address := <-addresses:
			reported = append(reported, address)
		case <-time.After(10 * time.Second):
			t.Fatalf("only %v were reported", reported)
		}
	}
	if slices.Sort(reported); !slices.Equal(reported, []string{"10.3.0.1", "10.3.0.1", "fd00::1"}) {
		t.Errorf("reported %v", reported)
	}
	for address, want := range map[string][]string{
		"10.3.0.1": {"10.70.0.1", "10.70.0.2"}, "FD00:0::1": {"fd70::1"}, "10.3.0.2": nil, "x": nil,
	} {
		if got := i.mapped(address); !slices.Equal(got, want) {
			t.Errorf("%s is mapped to %v, want %v", address, got, want)
		}
	}
	if (&informers{}).mapped("10.3.0.1") != nil {
		t.Error("an address is mapped although there are no AddressMappings")
	}
}
