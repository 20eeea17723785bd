// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints shadow endpoint slices.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/shadowendpointslice"
	"liqo.io/federation/registry/federation/store"
)

// maxSlices bounds what one consumer can store, in all its twin namespaces
// together.
const maxSlices = 1000

// New makes the storages of shadow endpoint slices and of their status. Those of
// all twins that twins names with a namespace are counted together.
func New(twins store.Together) func(*runtime.Scheme, generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
		strategy := shadowendpointslice.NewStrategy(scheme)
		return store.New(store.Kind{
			Resource:       "shadowendpointslices",
			Singular:       "shadowendpointslice",
			ShortNames:     []string{"seps"},
			New:            func() runtime.Object { return &federation.ShadowEndpointSlice{} },
			NewList:        func() runtime.Object { return &federation.ShadowEndpointSliceList{} },
			Strategy:       strategy,
			StatusStrategy: strategy.Status(),
			Table:          table,
			Max:            maxSlices,
			Together:       twins,
			// Nobody would look after the endpoints of one that was left behind.
			Along: "the EndpointSlice of a shadow endpoint slice",
		}, getter)
	}
}
