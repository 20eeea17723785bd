// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestNamespaceOffloadings(t *testing.T) {
	lifecycle{
		kind: "NamespaceOffloading", resource: "namespaceoffloadings", short: "nsof", name: "offloading", held: true,
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      fields{"namespaceMappingStrategy": "EnforceSameName"},
		change:    fields{"podOffloadingStrategy": "Remote", "namespaceMappingStrategy": "EnforceSameName"},
		status:    fields{"phase": "Ready", "remoteNamespaceName": "web", "clusters": []any{fields{"name": "turin"}}},
		header:    []string{"MAPPING", "PODS", "PHASE", "CLUSTERS", "REMOTE NAME", "AGE"},
		row:       []string{"EnforceSameName", "Remote", "Ready", "0/0", "web"},
		badSpecs: map[string]fields{
			"spec.podOffloadingStrategy": {"podOffloadingStrategy": "Somewhere"}, "spec.namespaceMappingStrategy": {"namespaceMappingStrategy": "Other"},
			"spec.enforcement": {"enforcement": "Kill"}, "spec.remoteNamespaceName": {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": strings.Repeat("a", 64)},
			"spec.clusterSelector.nodeSelectorTerms[0].matchExpressions[0].operator": {"clusterSelector": fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "a", "operator": "Near"}}}}}},
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Great"},
			"status.remoteNamespaceName": {"remoteNamespaceName": "a/b"}},
	}.run(t)
}
