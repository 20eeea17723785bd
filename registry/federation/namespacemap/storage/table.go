// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

var table = store.Table[*federation.NamespaceMap]{
	{Name: "Local", Type: "boolean", Description: "whether this cluster is the one that wants the namespaces", Cell: func(m *federation.NamespaceMap) any {
		return naming.IsPeerNamespace(m.Namespace)
	}},
	{Name: "Namespaces", Description: "how many of the wanted namespaces are ready", Cell: func(m *federation.NamespaceMap) any {
		ready := 0
		for _, namespace := range m.Status.Namespaces {
			if namespace.Phase == federation.NamespaceMappingReady {
				ready++
			}
		}
		return fmt.Sprintf("%d/%d", ready, len(m.Spec.Namespaces))
	}},
}
