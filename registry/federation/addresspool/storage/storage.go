// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints address pools.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/addresspool"
	"liqo.io/federation/registry/federation/store"
)

// maxPools bounds what is read for each allocation; a cluster needs two.
const maxPools = 64

// New makes the storages of address pools and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := addresspool.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "addresspools",
		Singular:       "addresspool",
		ShortNames:     []string{"apool"},
		New:            func() runtime.Object { return &federation.AddressPool{} },
		NewList:        func() runtime.Object { return &federation.AddressPoolList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Max:            maxPools,
	}, getter)
}
