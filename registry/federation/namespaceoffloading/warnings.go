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
	if offloading.Spec.NamespaceMappingStrategy != federation.EnforceSameName {
		return nil
	}
	if err := rules.RefuseTwinNamespace(offloading.Namespace); err != nil {
		return []string{fmt.Sprintf("spec.namespaceMappingStrategy: EnforceSameName cannot work here: %v", err)}
	}
	return nil
}
