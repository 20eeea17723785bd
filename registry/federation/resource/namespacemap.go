// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// maxMaps is the maximum number of NamespaceMaps in a namespace, so that a consumer cannot fill etcd. A consumer uses
// one.
const maxMaps = 16

// NamespaceMaps is the definition of NamespaceMaps, with which a consumer requests remote namespaces from a provider.
var NamespaceMaps = Kind[*federation.NamespaceMap, federation.NamespaceMapSpec, federation.NamespaceMapStatus]{
	Resource: "namespacemaps", Singular: "namespacemap", ShortNames: []string{"nm"},
	New:        func() runtime.Object { return &federation.NamespaceMap{} },
	NewList:    func() runtime.Object { return &federation.NamespaceMapList{} },
	Namespaced: true,
	Parts: func(obj *federation.NamespaceMap) (*federation.NamespaceMapSpec, *federation.NamespaceMapStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateNamespaceMap,
	ValidateUpdate:       validation.ValidateNamespaceMapUpdate,
	ValidateStatusUpdate: validation.ValidateNamespaceMapStatusUpdate,
	Max:                  maxMaps,
	Columns: store.Table[*federation.NamespaceMap]{
		{Name: "Local", Type: "boolean", Description: "whether this cluster is the consumer",
			Cell: func(m *federation.NamespaceMap) any {
				return naming.IsPeerNamespace(m.Namespace)
			}},
		{Name: "Namespaces", Description: "number of requested namespaces that are ready",
			Cell: func(m *federation.NamespaceMap) any {
				ready := 0
				for _, namespace := range m.Status.Namespaces {
					if namespace.Phase == federation.NamespaceMappingReady {
						ready++
					}
				}
				return fmt.Sprintf("%d/%d", ready, len(m.Spec.Namespaces))
			}},
	},
}
