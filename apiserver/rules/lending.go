// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names with these beginnings belong to the system, its distributions and this
// product. A twin called like the tenant namespace of a cluster to come would
// keep that cluster from peering.
var reservedPrefixes = []string{"kube-", "openshift-", tenantPrefix, peerPrefix}

var reservedNames = []string{"default", "liqo", "openshift"}

// RefuseTwinNamespace says why a provider never lends a namespace of this
// name, which a stranger chose; nil means that it may. own are the namespaces
// that the product is installed in.
func RefuseTwinNamespace(name string, own ...string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("it is not a name for a namespace: %s", strings.Join(problems, ", "))
	}
	if slices.Contains(reservedNames, name) || slices.Contains(own, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return fmt.Errorf("the provider keeps the name %s for itself: offload a namespace of another name", name)
	}
	return nil
}
