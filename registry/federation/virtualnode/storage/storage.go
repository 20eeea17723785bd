// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints virtual nodes.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/virtualnode"
)

// New makes the storages of virtual nodes and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := virtualnode.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "virtualnodes",
		Singular:       "virtualnode",
		ShortNames:     []string{"vn"},
		New:            func() runtime.Object { return &federation.VirtualNode{} },
		NewList:        func() runtime.Object { return &federation.VirtualNodeList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			node := obj.(*federation.VirtualNode)
			return fields.Set{
				"spec.clusterID": node.Spec.ClusterID,
			}
		},
	}, getter)
}
