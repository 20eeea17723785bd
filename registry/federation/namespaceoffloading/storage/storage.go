// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints namespace offloadings.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/namespaceoffloading"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of namespace offloadings and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := namespaceoffloading.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "namespaceoffloadings",
		Singular:       "namespaceoffloading",
		ShortNames:     []string{"nsof"},
		New:            func() runtime.Object { return &federation.NamespaceOffloading{} },
		NewList:        func() runtime.Object { return &federation.NamespaceOffloadingList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			offloading := obj.(*federation.NamespaceOffloading)
			return fields.Set{
				"status.phase": string(offloading.Status.Phase),
			}
		},
	}, getter)
}
