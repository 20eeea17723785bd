// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"liqo.io/federation/test/integration/framework"
)

// The API must accept each sample in a dry run with strict validation.
func TestSamplesAreAccepted(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	named := regexp.MustCompile(`(?m)^  namespace: .*$`)
	for _, name := range []string{"incomingpolicy", "namespaceoffloading", "peeringtoken", "virtualnode"} {
		t.Run(name, func(t *testing.T) {
			manifest, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "samples", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			// Namespaced samples are created in a namespace that exists.
			text := named.ReplaceAllString(string(manifest), "  namespace: "+namespace)
			env.Kubectl(t, text, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
		})
	}
}
