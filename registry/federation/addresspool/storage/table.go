// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"strings"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.AddressPool]{
	{Name: "CIDRs", Description: "the CIDRs that are given from", Cell: func(p *federation.AddressPool) any {
		return strings.Join(p.Spec.CIDRs, ",")
	}},
	{Name: "Used", Description: "how much of each CIDR is reserved or taken", Cell: func(p *federation.AddressPool) any {
		return each(p, func(c federation.AddressPoolCIDRStatus) string { return fmt.Sprintf("%d%%", c.UsedPercent) })
	}},
	{Name: "Mappings", Type: "integer", Description: "how many AddressMappings name the pool", Cell: func(p *federation.AddressPool) any {
		return p.Status.Mappings
	}},
	{Name: "Largest free", Wide: true, Description: "the largest range of each CIDR that can still be given", Cell: func(p *federation.AddressPool) any {
		return each(p, func(c federation.AddressPoolCIDRStatus) string { return store.OrNone(c.LargestFree) })
	}},
}

func each(p *federation.AddressPool, cell func(federation.AddressPoolCIDRStatus) string) string {
	var cells []string
	for _, cidr := range p.Status.CIDRs {
		cells = append(cells, cell(cidr))
	}
	return store.OrNone(strings.Join(cells, ","))
}
