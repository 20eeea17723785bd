// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadowpod serves ShadowPods, and limits each consumer to its quota.
package shadowpod

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/reservation"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

var kind = resource.Kind[*federation.ShadowPod, federation.ShadowPodSpec, federation.ShadowPodStatus]{
	Resource: "shadowpods", Singular: "shadowpod", ShortNames: []string{"sp"},
	New:        func() runtime.Object { return &federation.ShadowPod{} },
	NewList:    func() runtime.Object { return &federation.ShadowPodList{} },
	Namespaced: true,
	Parts: func(obj *federation.ShadowPod) (*federation.ShadowPodSpec, *federation.ShadowPodStatus) {
		return &obj.Spec, &obj.Status
	},
	Prepare:              resource.Hold[*federation.ShadowPod],
	Validate:             validation.ValidateShadowPod,
	ValidateUpdate:       validation.ValidateShadowPodUpdate,
	ValidateStatusUpdate: validation.ValidateShadowPodStatusUpdate,
	Fields: func(obj *federation.ShadowPod) fields.Set {
		return fields.Set{"status.phase": string(obj.Status.Phase)}
	},
	// An orphaned pod would run without using quota.
	Dependent: "the pod of a shadow pod",
	Columns: store.Table[*federation.ShadowPod]{
		{Name: "Status", Description: "phase of a finished pod, reason why no pod was created, or Active",
			Cell: func(p *federation.ShadowPod) any {
				created := meta.FindStatusCondition(p.Status.Conditions, federation.ConditionPodCreated)
				switch {
				case p.Status.Phase != "":
					return string(p.Status.Phase)
				case p.DeletionTimestamp != nil:
					return "Terminating"
				case created != nil && created.Status == metav1.ConditionFalse:
					return created.Reason
				default:
					return "Active"
				}
			}},
	},
}

// New returns a constructor for the storage of ShadowPods and of their status. A shadow pod uses quota if consumerOf
// reports that its namespace is a remote namespace. limitsOf returns the limits for pods of a consumer; nil if it has
// none.
func New(
	quotas *podquota.Quotas, consumerOf reservation.ConsumerOf, limitsOf LimitsOf,
) func(*runtime.Scheme, generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
		kind := kind
		kind.Changed = quotas.Changed
		strategy := NewStrategy(scheme)
		stored, status, err := kind.StorageWith(attributed{strategy, quotas, limitsOf}, attributedStatus{strategy.Status()},
			getter)
		if err != nil {
			return nil, nil, err
		}
		return reservation.New(counted, stored, status, quotas.Ledgers, consumerOf), status, nil
	}
}
