// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"
	"testing"
)

// A Node is sent to all watchers of Nodes, and kubectl prints its version.
func TestVersionsOfProvidersAreBoundedAndPrintable(t *testing.T) {
	for _, version := range []string{
		"v1.37.1", "v1.36.0-rc.1", "v1.36.1+k3s1", "v1.36.3-gke.1234567", "v1.36.2-eks-a1b2c3d",
		"v1.36.0-alpha.0.1+0123456789ab-dirty",
	} {
		if got := Version(version); got != version {
			t.Errorf("%q became %q", version, got)
		}
	}
	for _, version := range []string{
		"", "1.37.1", "v1.37", "v1.37.1\n", "v1.37.1\x1b[31m", "v1.37.1 ", "v1.37.1-" + strings.Repeat("x", 1<<20),
		"v1111.0.0", "v1.37.1-ä",
	} {
		if got := Version(version); got != "unknown" {
			t.Errorf("%q became %q", version[:min(len(version), 20)], got)
		}
	}
}
