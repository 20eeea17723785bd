// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressmapping serves AddressMappings, and allocates the range that replaces each mapped one.
package addressmapping

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

var kind = resource.Kind[*federation.AddressMapping, federation.AddressMappingSpec, struct{}]{
	Resource: "addressmappings", Singular: "addressmapping", ShortNames: []string{"am"},
	New:        func() runtime.Object { return &federation.AddressMapping{} },
	NewList:    func() runtime.Object { return &federation.AddressMappingList{} },
	Namespaced: true,
	Parts: func(obj *federation.AddressMapping) (*federation.AddressMappingSpec, *struct{}) {
		return &obj.Spec, &struct{}{}
	},
	Validate:       validation.ValidateAddressMapping,
	ValidateUpdate: validation.ValidateAddressMappingUpdate,
	Fields: func(obj *federation.AddressMapping) fields.Set {
		return fields.Set{"spec.clusterID": obj.Spec.ClusterID, "spec.pool": obj.Spec.Pool}
	},
	Columns: store.Table[*federation.AddressMapping]{
		{Name: "Maps", Description: "mapped CIDR or address", Cell: func(m *federation.AddressMapping) any {
			return m.Spec.CIDR + m.Spec.Address
		}},
		{Name: "To", Description: "range or address that replaces the mapped one",
			Cell: func(m *federation.AddressMapping) any {
				return store.OrNone(m.Spec.Mapped)
			}},
		{Name: "Ports", Wide: true, Description: "allowed ports",
			Cell: func(m *federation.AddressMapping) any {
				var ports []string
				for _, port := range m.Spec.Ports {
					ports = append(ports, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
				}
				return cmp.Or(strings.Join(ports, ","), "<all>")
			}},
		{Name: "Pool", Description: "AddressPool from which the range is allocated",
			Cell: func(m *federation.AddressMapping) any {
				return m.Spec.Pool
			}},
		{Name: "Cluster ID", Wide: true, Description: "ID of the peer for which the mapping exists",
			Cell: func(m *federation.AddressMapping) any {
				return m.Spec.ClusterID
			}},
	},
}

// New returns the storage of AddressMappings, which have no status. addresses allocates their ranges. New fails if the
// etcd storage cannot be configured.
func New(
	scheme *runtime.Scheme, getter generic.RESTOptionsGetter, addresses *addressrange.Addresses,
) (*REST, error) {
	kind := kind
	kind.Changed = addresses.Changed
	strategy := Strategy{kind.Strategy(scheme)}
	stored, _, err := kind.StorageWith(strategy, strategy.Status(), getter)
	if err != nil {
		return nil, err
	}
	stored.BeginCreate = begin
	return &REST{REST: stored, addresses: addresses}, nil
}

// Strategy is the strategy of AddressMappings. Only the ports in their spec can be updated, and they have no status.
type Strategy struct {
	resource.Strategy[*federation.AddressMapping, federation.AddressMappingSpec, struct{}]
}

// PrepareForUpdate keeps the allocated range if the update has none. This allows a client to apply again the manifest
// from which it created the mapping.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	mapping, before := obj.(*federation.AddressMapping), old.(*federation.AddressMapping)
	if mapping.Spec.Mapped == "" {
		mapping.Spec.Mapped = before.Spec.Mapped
	}
	s.Strategy.PrepareForUpdate(ctx, obj, old)
}
