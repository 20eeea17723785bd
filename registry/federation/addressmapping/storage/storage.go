// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints address mappings, and allocates what they
// are mapped to.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/addressmapping"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storage of address mappings, which take what these addresses
// have. There is no status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter, addresses *addressrange.Addresses) (*REST, error) {
	strategy := addressmapping.NewStrategy(scheme)
	stored, _, err := store.New(store.Kind{
		Resource:   "addressmappings",
		Singular:   "addressmapping",
		ShortNames: []string{"am"},
		New:        func() runtime.Object { return &federation.AddressMapping{} },
		NewList:    func() runtime.Object { return &federation.AddressMappingList{} },
		Strategy:   strategy,
		// It is served nowhere.
		StatusStrategy: strategy.Status(),
		Table:          table,
		Changed:        addresses.Changed,
		Fields: func(obj runtime.Object) fields.Set {
			mapping := obj.(*federation.AddressMapping)
			return fields.Set{"spec.clusterID": mapping.Spec.ClusterID, "spec.pool": mapping.Spec.Pool}
		},
	}, getter)
	if err != nil {
		return nil, err
	}
	stored.BeginCreate = begin
	return &REST{REST: stored, addresses: addresses}, nil
}
