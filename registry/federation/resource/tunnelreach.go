// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
)

// TunnelReaches is the definition of TunnelReaches. Each has the addresses of the local pods that one peer reaches.
var TunnelReaches = Kind[*federation.TunnelReach, federation.TunnelReachSpec, struct{}]{
	Resource: "tunnelreaches", Singular: "tunnelreach", ShortNames: []string{"tr"},
	New:        func() runtime.Object { return &federation.TunnelReach{} },
	NewList:    func() runtime.Object { return &federation.TunnelReachList{} },
	Namespaced: true,
	Parts: func(obj *federation.TunnelReach) (*federation.TunnelReachSpec, *struct{}) {
		return &obj.Spec, &struct{}{}
	},
	Validate:       validation.ValidateTunnelReach,
	ValidateUpdate: validation.ValidateTunnelReachUpdate,
	Columns: store.Table[*federation.TunnelReach]{
		{Name: "Cluster", Description: "ID of the peer", Cell: func(r *federation.TunnelReach) any {
			return r.Spec.ClusterID
		}},
		{Name: "Addresses", Type: "integer", Description: "number of addresses that the peer reaches",
			Cell: func(r *federation.TunnelReach) any {
				return int64(len(r.Spec.Addresses))
			}},
	},
}
