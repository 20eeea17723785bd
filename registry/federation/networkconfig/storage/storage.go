// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints network configurations.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/networkconfig"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of network configurations and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := networkconfig.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "networkconfigs",
		Singular:       "networkconfig",
		ShortNames:     []string{"netcfg"},
		New:            func() runtime.Object { return &federation.NetworkConfig{} },
		NewList:        func() runtime.Object { return &federation.NetworkConfigList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"spec.clusterID": obj.(*federation.NetworkConfig).Spec.ClusterID}
		},
	}, getter)
}
