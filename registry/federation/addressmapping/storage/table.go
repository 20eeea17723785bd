// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"fmt"
	"strings"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.AddressMapping]{
	{Name: "Maps", Description: "the CIDR or address that is mapped", Cell: func(m *federation.AddressMapping) any {
		return m.Spec.CIDR + m.Spec.Address
	}},
	{Name: "To", Description: "what it is mapped to", Cell: func(m *federation.AddressMapping) any {
		return store.OrNone(m.Spec.Mapped)
	}},
	{Name: "Ports", Wide: true, Description: "the ports that may be called", Cell: func(m *federation.AddressMapping) any {
		var ports []string
		for _, port := range m.Spec.Ports {
			ports = append(ports, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
		}
		return cmp.Or(strings.Join(ports, ","), "<all>")
	}},
	{Name: "Pool", Description: "the AddressPool that it is taken from", Cell: func(m *federation.AddressMapping) any {
		return m.Spec.Pool
	}},
	{Name: "Cluster ID", Wide: true, Description: "the cluster that the mapping is for", Cell: func(m *federation.AddressMapping) any {
		return m.Spec.ClusterID
	}},
}
