// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"fmt"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/rules"
)

// warnings tell what no provider will take part in.
func warnings(offloading *federation.NamespaceOffloading) []string {
	field, name := "spec.namespaceMappingStrategy", offloading.Namespace
	switch offloading.Spec.NamespaceMappingStrategy {
	case federation.EnforceSameName:
	case federation.SelectedName:
		field, name = "spec.remoteNamespaceName", offloading.Spec.RemoteNamespaceName
	default:
		return nil
	}
	if err := rules.RefuseTwinNamespace(name); err != nil {
		return []string{fmt.Sprintf("%s: %s cannot work here: %v", field, offloading.Spec.NamespaceMappingStrategy, err)}
	}
	return nil
}
