// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints namespace maps.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/namespacemap"
	"liqo.io/federation/registry/federation/store"
)

// maxMaps bounds what one consumer can store in its tenant namespace; it needs
// one map.
const maxMaps = 16

// New makes the storages of namespace maps and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := namespacemap.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "namespacemaps",
		Singular:       "namespacemap",
		ShortNames:     []string{"nm"},
		New:            func() runtime.Object { return &federation.NamespaceMap{} },
		NewList:        func() runtime.Object { return &federation.NamespaceMapList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Max:            maxMaps,
	}, getter)
}
