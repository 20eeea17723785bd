// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
)

// TunnelEndpoints is the definition of TunnelEndpoints. Each configures the tunnel to one peer.
var TunnelEndpoints = Kind[*federation.TunnelEndpoint, federation.TunnelEndpointSpec, federation.TunnelEndpointStatus]{
	Resource: "tunnelendpoints", Singular: "tunnelendpoint", ShortNames: []string{"te"},
	New:        func() runtime.Object { return &federation.TunnelEndpoint{} },
	NewList:    func() runtime.Object { return &federation.TunnelEndpointList{} },
	Namespaced: true,
	Parts: func(obj *federation.TunnelEndpoint) (*federation.TunnelEndpointSpec, *federation.TunnelEndpointStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateTunnelEndpoint,
	ValidateUpdate:       validation.ValidateTunnelEndpointUpdate,
	ValidateStatusUpdate: validation.ValidateTunnelEndpointStatusUpdate,
	Fields: func(obj *federation.TunnelEndpoint) fields.Set {
		return fields.Set{"spec.clusterID": obj.Spec.ClusterID}
	},
	Columns: store.Table[*federation.TunnelEndpoint]{
		{Name: "Cluster", Description: "ID of the peer", Cell: func(t *federation.TunnelEndpoint) any {
			return t.Spec.ClusterID
		}},
		{Name: "Endpoint", Description: "observed endpoint of the remote gateway, otherwise its configured endpoints",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(cmp.Or(t.Status.Endpoint, strings.Join(t.Spec.Endpoints, ",")))
			}},
		{Name: "Status", Description: "phase of the tunnel", Cell: func(t *federation.TunnelEndpoint) any {
			return string(cmp.Or(t.Status.Phase, federation.TunnelConnecting))
		}},
		{Name: "Latency", Description: "round-trip time to the remote gateway",
			Cell: func(t *federation.TunnelEndpoint) any {
				if t.Status.Phase != federation.TunnelConnected {
					return store.None
				}
				return store.Latency(t.Status.LatencyMicroseconds)
			}},
		{Name: "Gateway", Wide: true, Description: "node of the active gateway",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(t.Status.Gateway)
			}},
		{Name: "Implementation", Wide: true, Description: "WireGuard implementation",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(t.Status.Implementation)
			}},
		{Name: "Remote", Wide: true, Description: "remapped CIDRs of the peer",
			Cell: func(t *federation.TunnelEndpoint) any {
				return mapped(t.Spec.Remote)
			}},
		{Name: "Local", Wide: true, Description: "remapped CIDRs of this cluster",
			Cell: func(t *federation.TunnelEndpoint) any {
				return mapped(t.Spec.Local)
			}},
	},
}

func mapped(list []federation.CIDRMapping) string {
	var all []string
	for _, mapping := range list {
		all = append(all, mapping.Mapped)
	}
	return store.OrNone(strings.Join(all, ","))
}
