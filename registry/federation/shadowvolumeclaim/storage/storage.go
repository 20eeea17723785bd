// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage stores and prints shadow volume claims, and keeps each consumer within
// its storage quota.
package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/shadowvolumeclaim"
	"liqo.io/federation/registry/federation/store"
)

// maxClaims bounds what one consumer can store, in all its remote namespaces together,
// whatever its quota.
const maxClaims = 10000

// New returns a constructor of the storages of shadow volume claims and of their status.
// Claims reserve what they take in quotas, in the namespaces that consumerOf reports as
// remote; together returns the namespaces whose claims share maxClaims.
func New(quotas *storagequota.Quotas, consumerOf reservation.ConsumerOf, together store.Together,
) func(*runtime.Scheme, generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
		strategy := shadowvolumeclaim.NewStrategy(scheme)
		stored, status, err := store.New(store.Kind{
			Resource:       "shadowvolumeclaims",
			Singular:       "shadowvolumeclaim",
			ShortNames:     []string{"shvc"},
			New:            func() runtime.Object { return &federation.ShadowVolumeClaim{} },
			NewList:        func() runtime.Object { return &federation.ShadowVolumeClaimList{} },
			Strategy:       strategy,
			StatusStrategy: strategy.Status(),
			Table:          table,
			Max:            maxClaims,
			Together:       together,
			Changed:        quotas.Changed,
			// A volume without its object would not count.
			Along: "the claim of a shadow volume claim",
			Fields: func(obj runtime.Object) fields.Set {
				return fields.Set{"status.phase": string(obj.(*federation.ShadowVolumeClaim).Status.Phase)}
			},
		}, getter)
		if err != nil {
			return nil, nil, err
		}
		return reservation.New(counted, stored, status, quotas.Ledgers, consumerOf), status, nil
	}
}
