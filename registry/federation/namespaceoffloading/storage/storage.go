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
	"liqo.io/federation/registry/federation/subresource/plan"
)

// New makes what makes the storages of namespace offloadings and of their
// status, which look around in the cluster by plans.
func New(plans plan.Reader) func(*runtime.Scheme, generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
		return store.New(kind(namespaceoffloading.NewStrategy(scheme, plans), plans), getter)
	}
}

func kind(strategy namespaceoffloading.Strategy, plans plan.Reader) store.Kind {
	return store.Kind{
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
		DeletionWarnings: namespaceoffloading.Deletion(plans),
	}
}
