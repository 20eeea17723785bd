// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"liqo.io/federation/test/harness"
)

// shellBlock is a fenced block of commands in a page.
var shellBlock = regexp.MustCompile("(?ms)^```bash\n(.*?)^```$")

// runsThePage runs the commands of a page in one shell, with the clusters of this instance in place of
// the reader's and variables as NAME=value, and returns their output. c is the cluster of a page that
// selects none.
func runsThePage(t *testing.T, c *harness.Cluster, page string, variables ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(playground.Root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllStringSubmatch(string(content), -1)
	if len(blocks) == 0 {
		t.Fatalf("docs/%s has no commands", page)
	}
	script := strings.Builder{}
	script.WriteString("set -euxo pipefail\n")
	for _, block := range blocks {
		script.WriteString(block[1])
	}
	clusters := filepath.Dir(playground.Kubeconfig("rome"))
	commands := strings.NewReplacer(
		"$PWD/.playground/rome.kubeconfig", filepath.Join(clusters, "rome.kubeconfig"),
		"$PWD/.playground/milan.kubeconfig", filepath.Join(clusters, "milan.kubeconfig"),
	).Replace(script.String())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	shell := harness.Command(ctx, "bash", "-s")
	shell.Dir = playground.Root
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(playground.Root, ".playground", "bin")+":"+os.Getenv("PATH"),
		"KUBECONFIG="+playground.Kubeconfig(c.Name))
	shell.Env = append(shell.Env, variables...)
	shell.Stdin = strings.NewReader(commands)
	result := harness.Run(shell)
	if result.Err != nil {
		t.Fatalf("docs/%s: %v\n%s", page, result.Err, result.Stdout)
	}
	return result.Stdout
}
