// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.NamespaceOffloading]{
	{Name: "Mapping", Description: "how the twin namespaces are named", Cell: func(o *federation.NamespaceOffloading) any {
		return string(o.Spec.NamespaceMappingStrategy)
	}},
	{Name: "Pods", Description: "where pods may run", Cell: func(o *federation.NamespaceOffloading) any {
		return string(o.Spec.PodOffloadingStrategy)
	}},
	{Name: "Phase", Description: "how the extension of the namespace stands", Cell: func(o *federation.NamespaceOffloading) any {
		return offloadingPhase(o.DeletionTimestamp != nil, o.Status.Phase)
	}},
	{Name: "Clusters", Description: "at how many of the selected clusters the namespace is ready", Cell: func(o *federation.NamespaceOffloading) any {
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
	{Name: "Remote Name", Description: "the name of the twin namespaces", Cell: func(o *federation.NamespaceOffloading) any {
		return store.OrNone(o.Status.RemoteNamespaceName)
	}},
}

// offloadingPhase is what was observed; until something was, it is in
// progress.
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
