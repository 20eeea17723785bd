// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints shadow pods.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/shadowpod"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of shadow pods and of their status.
func New(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*store.REST, *store.StatusREST, error) {
	strategy := shadowpod.NewStrategy(scheme)
	return store.New(store.Kind{
		Resource:       "shadowpods",
		Singular:       "shadowpod",
		ShortNames:     []string{"sp"},
		New:            func() runtime.Object { return &federation.ShadowPod{} },
		NewList:        func() runtime.Object { return &federation.ShadowPodList{} },
		Strategy:       strategy,
		StatusStrategy: strategy.Status(),
		Table:          table,
		Fields: func(obj runtime.Object) fields.Set {
			pod := obj.(*federation.ShadowPod)
			return fields.Set{
				"status.phase": string(pod.Status.Phase),
			}
		},
	}, getter)
}
