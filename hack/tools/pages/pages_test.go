// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "# Top\n```text\n# no heading\n```\n" +
	"## A `part`\n1. indented:\n\n   ```sh run\n   ls\n     x\n   ```\n" +
	"```sh run\nmake demo\nmake test   # all\n```\n" +
	"## Rest\n```sh external\ncurl\n```\n```sh run\nmake demo X=1\n```\n```\n"

func TestBlocksHaveTheirSections(t *testing.T) {
	want := []Block{
		{2, "text", "top", "# no heading\n"},
		{8, Run, "a-part", "ls\n  x\n"},
		{12, Run, "a-part", "make demo\nmake test   # all\n"},
		{17, External, "rest", "curl\n"},
		{20, Run, "rest", "make demo X=1\n"},
		{23, "", "rest", ""},
	}
	got := Parse(page)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"demo", "test"}, got[2].Targets()); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

func TestCommandsAreThoseThatATestRuns(t *testing.T) {
	for section, want := range map[string]string{"": "ls\n  x\nmake demo X=1\n", "a-part": "ls\n  x\n", "top": ""} {
		if got := Commands(page, section); got != want {
			t.Errorf("commands of section %q are %q, want %q", section, got, want)
		}
	}
}

func TestAnchorsAreThoseOfCodeHosts(t *testing.T) {
	for heading, want := range map[string]string{
		"When a remote node is lost":                   "when-a-remote-node-is-lost",
		"The virtual StorageClass: events, and more":   "the-virtual-storageclass-events-and-more",
		"`kubectl get` — what it prints":               "kubectl-get--what-it-prints",
		"The gateway's Service":                        "the-gateways-service",
		"[verbs](verbs.md) of `snake_case`/API-groups": "verbs-of-snake_caseapi-groups",
	} {
		if got := Anchor("## " + heading); got != want {
			t.Errorf("anchor of %q is %q, want %q", heading, got, want)
		}
	}
}
