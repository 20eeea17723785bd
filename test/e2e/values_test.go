// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"liqo.io/federation/test/harness"
)

// setsValues sets chart values in the format "key=value", and waits until all components run with
// them.
func setsValues(t *testing.T, c *harness.Cluster, values ...string) {
	t.Helper()
	helmUpgrade(t, c, append([]string{"--reuse-values", "--wait", "--timeout=3m"}, setting(values...)...)...)
}

// setting returns the arguments of Helm that set chart values.
func setting(values ...string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// helmUpgrade runs "helm upgrade" with the chart of this checkout.
func helmUpgrade(t *testing.T, c *harness.Cluster, args ...string) {
	t.Helper()
	revises(t, c, append([]string{"upgrade", harness.Release, filepath.Join(playground.Root, "artifacts", "chart")},
		args...)...)
}

// revises runs a command of Helm that creates a revision of the release.
func revises(t *testing.T, c *harness.Cluster, args ...string) {
	t.Helper()
	// Cleanups call it as well, when the context of the test has ended.
	if err := c.Helm(context.WithoutCancel(t.Context()),
		append(args, "--namespace", harness.Namespace)...).Err; err != nil {
		t.Fatal(err)
	}
}
