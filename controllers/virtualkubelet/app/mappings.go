// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// byAddress is the name of the index of AddressMappings by spec.address.
const byAddress = "address"

// mapped returns the addresses in spec.mapped of the provider's AddressMappings whose spec.address is this address,
// sorted.
func (i *informers) mapped(address string) []string {
	parsed, err := netip.ParseAddr(address)
	if i.mappings == nil || err != nil {
		return nil
	}
	// ByIndex fails only if the index does not exist, and start adds it.
	found, _ := i.mappings.GetIndexer().ByIndex(byAddress, parsed.String())
	var all []string
	for _, object := range found {
		all = append(all, object.(*v1alpha1.AddressMapping).Spec.Mapped)
	}
	slices.Sort(all)
	return all
}

func addressOf(object any) ([]string, error) {
	if mapping, ok := object.(*v1alpha1.AddressMapping); ok && mapping.Spec.Address != "" {
		return []string{mapping.Spec.Address}, nil
	}
	return nil, nil
}

// onMapping returns a handler that calls f with the spec.address of each AddressMapping that is created or deleted. It
// ignores updates, because mappings are immutable.
func onMapping(f func(address string)) cache.ResourceEventHandler {
	notify := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if mapping, ok := object.(*v1alpha1.AddressMapping); ok && mapping.Spec.Address != "" {
			f(mapping.Spec.Address)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: notify, DeleteFunc: notify}
}

// sameAddress reports whether both strings are valid and equal IP addresses.
func sameAddress(one, other string) bool {
	a, err1 := netip.ParseAddr(one)
	b, err2 := netip.ParseAddr(other)
	return err1 == nil && err2 == nil && a == b
}

// trimMapping drops the labels, annotations and managed fields of an AddressMapping.
func trimMapping(object any) (any, error) {
	mapping, ok := object.(*v1alpha1.AddressMapping)
	if !ok {
		return object, nil
	}
	return &v1alpha1.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       mapping.Namespace,
			Name:            mapping.Name,
			UID:             mapping.UID,
			ResourceVersion: mapping.ResourceVersion,
		},
		Spec: mapping.Spec,
	}, nil
}
