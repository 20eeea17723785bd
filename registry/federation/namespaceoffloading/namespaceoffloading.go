// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaceoffloading serves NamespaceOffloadings and their subresource offload.
package namespaceoffloading

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource/plan"
)

type kind = resource.Kind[*federation.NamespaceOffloading, federation.NamespaceOffloadingSpec,
	federation.NamespaceOffloadingStatus]

// Kind returns the definition of NamespaceOffloadings. plans reads the objects on which warnings depend.
func Kind(plans plan.Reader) kind {
	return kind{
		Resource: "namespaceoffloadings", Singular: "namespaceoffloading", ShortNames: []string{"nsof"},
		New:        func() runtime.Object { return &federation.NamespaceOffloading{} },
		NewList:    func() runtime.Object { return &federation.NamespaceOffloadingList{} },
		Namespaced: true,
		Parts: func(obj *federation.NamespaceOffloading) (*federation.NamespaceOffloadingSpec,
			*federation.NamespaceOffloadingStatus) {
			return &obj.Spec, &obj.Status
		},
		Prepare:              resource.Hold[*federation.NamespaceOffloading],
		Validate:             validation.ValidateNamespaceOffloading,
		ValidateUpdate:       validation.ValidateNamespaceOffloadingUpdate,
		ValidateStatusUpdate: validation.ValidateNamespaceOffloadingStatusUpdate,
		Fields: func(obj *federation.NamespaceOffloading) fields.Set {
			return fields.Set{"status.phase": string(obj.Status.Phase)}
		},
		Warnings:         warnings,
		Surroundings:     surroundings(plans),
		DeletionWarnings: deletion(plans),
		Columns: store.Table[*federation.NamespaceOffloading]{
			{Name: "Mapping", Description: "strategy that determines the names of the remote namespaces",
				Cell: func(o *federation.NamespaceOffloading) any {
					return string(o.Spec.NamespaceMappingStrategy)
				}},
			{Name: "Pods", Description: "whether pods may run locally, on providers, or both",
				Cell: func(o *federation.NamespaceOffloading) any {
					return string(o.Spec.PodOffloadingStrategy)
				}},
			{Name: "Phase", Description: "phase of the offloading",
				Cell: func(o *federation.NamespaceOffloading) any {
					return offloadingPhase(o.DeletionTimestamp != nil, o.Status.Phase)
				}},
			{Name: "Clusters", Description: "number of selected clusters on which the namespace is ready",
				Cell: func(o *federation.NamespaceOffloading) any {
					var ready, selected int
					for _, cluster := range o.Status.Clusters {
						if !meta.IsStatusConditionTrue(cluster.Conditions, federation.ConditionOffloadingRequired) {
							continue
						}
						selected++
						if meta.IsStatusConditionTrue(cluster.Conditions, federation.ConditionReady) {
							ready++
						}
					}
					return fmt.Sprintf("%d/%d", ready, selected)
				}},
			{Name: "Remote Name", Description: "name of the remote namespaces",
				Cell: func(o *federation.NamespaceOffloading) any {
					return store.OrNone(o.Status.RemoteNamespaceName)
				}},
		},
	}
}

// offloadingPhase returns Terminating during the deletion, and otherwise the observed phase. If none was observed yet,
// it returns InProgress.
func offloadingPhase(deleting bool, observed federation.OffloadingPhase) string {
	switch {
	case deleting:
		return string(federation.OffloadingTerminating)
	case observed == "":
		return string(federation.OffloadingInProgress)
	default:
		return string(observed)
	}
}
