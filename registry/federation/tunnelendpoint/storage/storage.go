// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints tunnel endpoints.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/tunnelendpoint"
)

// New makes the storages of tunnel endpoints and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := tunnelendpoint.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "tunnelendpoints",
		Singular:       "tunnelendpoint",
		ShortNames:     []string{"te"},
		New:            func() runtime.Object { return &federation.TunnelEndpoint{} },
		NewList:        func() runtime.Object { return &federation.TunnelEndpointList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"spec.clusterID": obj.(*federation.TunnelEndpoint).Spec.ClusterID}
		},
	}, getter)
}
