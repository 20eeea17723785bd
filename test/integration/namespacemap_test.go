// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"liqo.io/federation/test/integration/framework"
)

func TestNamespaceMaps(t *testing.T) {
	lifecycle{
		kind: "NamespaceMap", resource: "namespacemaps", short: "nm", name: "turin",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      fields{"namespaces": []any{fields{"name": "web", "remoteName": "web-turin"}}},
		change: fields{"namespaces": []any{fields{"name": "web", "remoteName": "web-turin"},
			fields{"name": "db", "remoteName": "db-turin"}}},
		status: fields{"observedGeneration": 1,
			"namespaces": []any{fields{"name": "web", "remoteName": "web-turin", "phase": "Ready"}}},
		header: []string{"LOCAL", "NAMESPACES", "AGE"},
		row:    []string{"false", "1/2"},
		badSpecs: map[string]fields{
			"spec.namespaces[0].remoteName": {"namespaces": []any{fields{"name": "web", "remoteName": "../kube-system"}}},
			"spec.namespaces[1].name":       {"namespaces": []any{fields{"name": "web", "remoteName": "a"}, fields{"name": "web", "remoteName": "b"}}},
		},
		badStatuses: map[string]fields{"status.namespaces[0].phase": {"namespaces": []any{fields{"name": "web",
			"remoteName": "web-turin", "phase": "Great"}}}},
	}.run(t)
}
