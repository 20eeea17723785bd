// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints virtual volumes, and serves the verb move.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/virtualvolume"
)

// New returns the storages of virtual volumes and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := virtualvolume.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "virtualvolumes",
		Singular:       "virtualvolume",
		ShortNames:     []string{"vvol"},
		New:            func() runtime.Object { return &federation.VirtualVolume{} },
		NewList:        func() runtime.Object { return &federation.VirtualVolumeList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			volume := obj.(*federation.VirtualVolume)
			set := fields.Set{"status.phase": string(volume.Status.Phase), "status.location.clusterName": ""}
			if volume.Status.Location != nil {
				set["status.location.clusterName"] = volume.Status.Location.ClusterName
			}
			return set
		},
	}, getter)
}
