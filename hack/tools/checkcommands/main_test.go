// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsAndSamplesWithoutATestAreReported(t *testing.T) {
	contents := map[string]string{
		"README.md": "```sh run\nmake demo\n```\n```sh run\nmake nothing\n```\n```\nx\n```\n```yaml\na: b\n```\n",
		"docs/a.md": "```sh run\nls\n```\n```bash\nls\n```\n```sh later\nls\n```\n```sh external\n$ ls\n```\n",
		"docs/b.md": "## One\n```sh run\nls\n```\n## Two\n```sh run\nls\n```\n## Three\n```sh example\nls\n```\n",
	}
	tests := `runsThePage(t, rome, "a.md", "x", "y"); runsThePage(t, rome, "b.md#one")
		runsThePage(t, milan, "c.md#one"); "a.yaml"; "b"`
	want := []string{
		`README.md:4: hack/test-full.sh does not run make nothing`,
		`README.md:7: the block has no language: use text for output, or a mark of commands`,
		`artifacts/samples/c.yaml: no test uses it`,
		`docs/a.md:10: a command has a block of its own, without a prompt and output`,
		`docs/a.md:4: commands have the mark "sh run", "sh external" or "sh example", not "bash"`,
		`docs/a.md:7: commands have the mark "sh run", "sh external" or "sh example", not "sh later"`,
		`docs/b.md:6: no test runs it: call runsThePage with "b.md#two"`,
		`docs/c.md#one: a test runs it, and it has no block sh run`,
	}
	samples := []string{"artifacts/samples/a.yaml", "artifacts/samples/b.yaml", "artifacts/samples/c.yaml"}
	summary, got := check(contents, samples, tests, "run make demo")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if want := "blocks of commands: 5 run, 1 external, 1 examples"; summary != want {
		t.Errorf("the summary is %q, want %q", summary, want)
	}
}
