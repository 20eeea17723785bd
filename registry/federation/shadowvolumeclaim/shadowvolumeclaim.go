// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowvolumeclaim serves ShadowVolumeClaims, and limits each consumer to its storage quota.
package shadowvolumeclaim

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

// maxClaims is the maximum number of shadow volume claims of one consumer, in all its remote
// namespaces together and independently of its quota.
const maxClaims = 10000

var kind = resource.Kind[*federation.ShadowVolumeClaim, federation.ShadowVolumeClaimSpec,
	federation.ShadowVolumeClaimStatus]{
	Resource: "shadowvolumeclaims", Singular: "shadowvolumeclaim", ShortNames: []string{"shvc"},
	New:        func() runtime.Object { return &federation.ShadowVolumeClaim{} },
	NewList:    func() runtime.Object { return &federation.ShadowVolumeClaimList{} },
	Namespaced: true,
	Parts: func(obj *federation.ShadowVolumeClaim) (*federation.ShadowVolumeClaimSpec,
		*federation.ShadowVolumeClaimStatus) {
		return &obj.Spec, &obj.Status
	},
	Prepare:              resource.Hold[*federation.ShadowVolumeClaim],
	Validate:             validation.ValidateShadowVolumeClaim,
	ValidateUpdate:       validation.ValidateShadowVolumeClaimUpdate,
	ValidateStatusUpdate: validation.ValidateShadowVolumeClaimStatusUpdate,
	Fields: func(obj *federation.ShadowVolumeClaim) fields.Set {
		return fields.Set{"status.phase": string(obj.Status.Phase)}
	},
	Max: maxClaims,
	// An orphaned volume would exist without using quota.
	Dependent: "the claim of a shadow volume claim",
	Columns: store.Table[*federation.ShadowVolumeClaim]{
		{Name: "Status", Description: "phase of the claim; Terminating while it is being deleted",
			Cell: func(c *federation.ShadowVolumeClaim) any {
				if c.DeletionTimestamp != nil {
					return "Terminating"
				}
				return store.OrNone(c.Status.Phase)
			}},
		{Name: "Class", Description: "storage class of the provider",
			Cell: func(c *federation.ShadowVolumeClaim) any { return c.Spec.StorageClassName }},
		{Name: "Capacity", Description: "actual size of the volume", Cell: func(c *federation.ShadowVolumeClaim) any {
			if c.Status.Capacity == nil {
				return store.None
			}
			return c.Status.Capacity.String()
		}},
		{Name: "Policy", Description: "whether the data is deleted or retained when the object is deleted",
			Cell: func(c *federation.ShadowVolumeClaim) any { return string(c.Spec.DeletionPolicy) }},
		{Name: "Consumer", Description: "ForeignCluster of the consumer whose quota the claim uses", Wide: true,
			Cell: func(c *federation.ShadowVolumeClaim) any { return store.OrNone(c.Status.ForeignCluster) }},
		{Name: "Volume", Description: "PersistentVolume of the provider", Wide: true,
			Cell: func(c *federation.ShadowVolumeClaim) any { return store.OrNone(c.Status.VolumeName) }},
	},
}

// New returns a constructor for the storage of ShadowVolumeClaims and of their status. A claim uses quota if consumerOf
// reports that its namespace is a remote namespace. together returns the namespaces whose claims count together towards
// maxClaims.
func New(
	quotas *storagequota.Quotas, consumerOf reservation.ConsumerOf, together store.Together,
) func(*runtime.Scheme, generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
		kind := kind
		kind.Changed, kind.Together = quotas.Changed, together
		strategy := newStrategy(scheme)
		stored, status, err := kind.StorageWith(strategy, strategy.Status(), getter)
		if err != nil {
			return nil, nil, err
		}
		return reservation.New(counted, stored, status, quotas.Ledgers, consumerOf), status, nil
	}
}
