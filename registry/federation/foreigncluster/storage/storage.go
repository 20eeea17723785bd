// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints foreign clusters.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/foreigncluster"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of foreign clusters and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := foreigncluster.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "foreignclusters",
		Singular:       "foreigncluster",
		ShortNames:     []string{"fc"},
		New:            func() runtime.Object { return &federation.ForeignCluster{} },
		NewList:        func() runtime.Object { return &federation.ForeignClusterList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			cluster := obj.(*federation.ForeignCluster)
			return fields.Set{
				"spec.clusterID":         cluster.Spec.ClusterID,
				"status.outgoingPeering": string(cluster.Status.OutgoingPeering),
				"status.incomingPeering": string(cluster.Status.IncomingPeering),
			}
		},
	}, getter)
}
