// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints shadow pods, and keeps each consumer within
// its quota.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/registry/federation/shadowpod"
	"liqo.io/federation/registry/federation/store"
)

// New makes the storages of shadow pods and of their status, within grants.
func New(quotas *podquota.Quotas, consumerOf reservation.ConsumerOf) func(*runtime.Scheme, generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
		strategy := shadowpod.NewStrategy(scheme)
		stored, status, err := store.New(store.Kind{
			Resource:       "shadowpods",
			Singular:       "shadowpod",
			ShortNames:     []string{"sp"},
			New:            func() runtime.Object { return &federation.ShadowPod{} },
			NewList:        func() runtime.Object { return &federation.ShadowPodList{} },
			Strategy:       attributed{strategy, quotas},
			StatusStrategy: strategy.Status(),
			Table:          table,
			Changed:        quotas.Changed,
			// One that was left behind would run and not count.
			Along: "the pod of a shadow pod",
			Fields: func(obj runtime.Object) fields.Set {
				pod := obj.(*federation.ShadowPod)
				return fields.Set{
					"status.phase": string(pod.Status.Phase),
				}
			},
		}, getter)
		if err != nil {
			return nil, nil, err
		}
		return reservation.New(counted, stored, status, quotas.Ledgers, consumerOf), status, nil
	}
}
