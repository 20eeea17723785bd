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
	"liqo.io/federation/registry/federation/subresource/plan"
)

// New makes what makes the storages of foreign clusters and of their status. Their
// warnings read the virtual volumes of plans.
func New(plans plan.Reader) func(*runtime.Scheme, generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
		return store.New(kind(foreigncluster.NewStrategy(scheme, plans), plans), getter)
	}
}

func kind(strategy foreigncluster.Strategy, plans plan.Reader) store.Kind {
	return store.Kind{
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
		DeletionWarnings: foreigncluster.Deletion(plans),
	}
}
