// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
)

// maxPools is the maximum number of AddressPools, because each allocation reads all of them. With the value
// network.enabled, an installation has two: default and external.
const maxPools = 64

// AddressPools is the definition of AddressPools, from which the ranges of AddressMappings are allocated.
var AddressPools = Kind[*federation.AddressPool, federation.AddressPoolSpec, federation.AddressPoolStatus]{
	Resource: "addresspools", Singular: "addresspool", ShortNames: []string{"apool"},
	New:     func() runtime.Object { return &federation.AddressPool{} },
	NewList: func() runtime.Object { return &federation.AddressPoolList{} },
	Parts: func(obj *federation.AddressPool) (*federation.AddressPoolSpec, *federation.AddressPoolStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateAddressPool,
	ValidateUpdate:       validation.ValidateAddressPoolUpdate,
	ValidateStatusUpdate: validation.ValidateAddressPoolStatusUpdate,
	Max:                  maxPools,
	Columns: store.Table[*federation.AddressPool]{
		{Name: "CIDRs", Description: "CIDRs of the pool", Cell: func(p *federation.AddressPool) any {
			return strings.Join(p.Spec.CIDRs, ",")
		}},
		{Name: "Used", Description: "percentage of each CIDR that is reserved or allocated",
			Cell: func(p *federation.AddressPool) any {
				return each(p, func(c federation.AddressPoolCIDRStatus) string { return fmt.Sprintf("%d%%", c.UsedPercent) })
			}},
		{Name: "Mappings", Type: "integer", Description: "number of AddressMappings of the pool",
			Cell: func(p *federation.AddressPool) any {
				return p.Status.Mappings
			}},
		{Name: "Largest free", Wide: true, Description: "largest free range of each CIDR",
			Cell: func(p *federation.AddressPool) any {
				return each(p, func(c federation.AddressPoolCIDRStatus) string { return store.OrNone(c.LargestFree) })
			}},
	},
}

func each(p *federation.AddressPool, cell func(federation.AddressPoolCIDRStatus) string) string {
	var cells []string
	for _, cidr := range p.Status.CIDRs {
		cells = append(cells, cell(cidr))
	}
	return store.OrNone(strings.Join(cells, ","))
}
