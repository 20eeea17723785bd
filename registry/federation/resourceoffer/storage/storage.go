// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints resource offers.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/resourceoffer"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of resource offers and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := resourceoffer.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "resourceoffers",
		Singular:       "resourceoffer",
		ShortNames:     []string{"ro"},
		New:            func() runtime.Object { return &federation.ResourceOffer{} },
		NewList:        func() runtime.Object { return &federation.ResourceOfferList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			offer := obj.(*federation.ResourceOffer)
			return fields.Set{
				"spec.clusterID": offer.Spec.ClusterID,
				"status.phase":   string(offer.Status.Phase),
			}
		},
	}, getter)
}
