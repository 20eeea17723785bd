// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtualvolume serves VirtualVolumes and their subresource move.
package virtualvolume

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

var kind = resource.Kind[*federation.VirtualVolume, federation.VirtualVolumeSpec, federation.VirtualVolumeStatus]{
	Resource: "virtualvolumes", Singular: "virtualvolume", ShortNames: []string{"vvol"},
	New:        func() runtime.Object { return &federation.VirtualVolume{} },
	NewList:    func() runtime.Object { return &federation.VirtualVolumeList{} },
	Namespaced: true,
	Parts: func(obj *federation.VirtualVolume) (*federation.VirtualVolumeSpec, *federation.VirtualVolumeStatus) {
		return &obj.Spec, &obj.Status
	},
	Prepare:              func(obj *federation.VirtualVolume) { identify(obj.Spec.Move, nil, false) },
	Validate:             validation.ValidateVirtualVolume,
	ValidateUpdate:       validation.ValidateVirtualVolumeUpdate,
	ValidateStatusUpdate: validation.ValidateVirtualVolumeStatusUpdate,
	Fields: func(obj *federation.VirtualVolume) fields.Set {
		set := fields.Set{"status.phase": string(obj.Status.Phase), "status.location.clusterName": ""}
		if obj.Status.Location != nil {
			set["status.location.clusterName"] = obj.Status.Location.ClusterName
		}
		return set
	},
	Columns: columns,
}

// New returns the storage of VirtualVolumes and of their status. It fails if the etcd storage cannot be configured.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := newStrategy(scheme)
	return kind.StorageWith(strategy, strategy.Status(), getter)
}
