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

// TunnelEndpoints are the tunnels to other clusters.
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
		{Name: "Cluster", Description: "the cluster at the other end", Cell: func(t *federation.TunnelEndpoint) any {
			return t.Spec.ClusterID
		}},
		{Name: "Endpoint", Description: "where the other gateway is heard from, or else where it is called",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(cmp.Or(t.Status.Endpoint, strings.Join(t.Spec.Endpoints, ",")))
			}},
		{Name: "Status", Description: "how far the tunnel has come", Cell: func(t *federation.TunnelEndpoint) any {
			return string(cmp.Or(t.Status.Phase, federation.TunnelConnecting))
		}},
		{Name: "Latency", Description: "how long a word to the other gateway and its answer take",
			Cell: func(t *federation.TunnelEndpoint) any {
				if t.Status.Phase != federation.TunnelConnected {
					return store.None
				}
				return store.Latency(t.Status.LatencyMicroseconds)
			}},
		{Name: "Gateway", Wide: true, Description: "the node here that holds the tunnel",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(t.Status.Gateway)
			}},
		{Name: "Implementation", Wide: true, Description: "the WireGuard that it uses",
			Cell: func(t *federation.TunnelEndpoint) any {
				return store.OrNone(t.Status.Implementation)
			}},
		{Name: "Remote", Wide: true, Description: "what is called here by the addresses of the other cluster",
			Cell: func(t *federation.TunnelEndpoint) any {
				return mapped(t.Spec.Remote)
			}},
		{Name: "Local", Wide: true, Description: "what the other cluster calls ours",
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
