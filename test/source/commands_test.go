// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"liqo.io/federation/hack/tools/pages"
)

var (
	resourceOf = regexp.MustCompile(`kubectl(?: --context \S+)? (?:get|describe) ([a-z][a-z,]*)`)
	program    = regexp.MustCompile(`\b(?:deployment|statefulset|daemonset)[/ ]((?:federation|liqo)-[a-z-]+)`)
	// declaredNames are the names under which the API server serves a kind.
	declaredNames = regexp.MustCompile(
		`Resource: +"([a-z]+)", Singular: "([a-z]+)"(?:, ShortNames: \[\]string\{"([a-z]+)"\})?`)
	chartName = regexp.MustCompile(`(?m)^  name: ((?:federation|liqo)-[a-z-]+)$`)
	chartDict = regexp.MustCompile(`"component" "([a-z-]+)"`)
	metric    = regexp.MustCompile("`((?:federation|liqo)_[a-z_]+)")
)

// kubernetesResources are the resources that commands of pages read in addition to the product's.
var kubernetesResources = []string{
	"apiservice", "deployment", "deployments", "endpointslices", "events", "lease", "leases", "namespace", "node", "nodes",
	"persistentvolumeclaims", "persistentvolumes", "pod", "pods", "pv", "pvc", "service", "services", "svc",
	// The category of all kinds of the API, and kinds of the Multi-Cluster Services API.
	"liqo", "serviceexports", "serviceimports",
}

// The commands of pages are commands of bash.
func TestCommandsOfPagesAreShell(t *testing.T) {
	found := 0
	for page, blocks := range commandsOfPages(t) {
		for _, block := range blocks {
			if !strings.HasPrefix(block.Info, "sh ") {
				continue
			}
			found++
			check := exec.Command("bash", "-n")
			check.Stdin = strings.NewReader(block.Text)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("docs/%s: %v\n%s%s", page, err, out, block.Text)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d blocks of commands were found", found)
	}
}

// The resources that commands of pages read are served, and the programs are in the chart.
func TestCommandsOfPagesNameWhatExists(t *testing.T) {
	resources, programs := slices.Clone(kubernetesResources), []string(nil)
	for _, text := range filesBelow(t, "registry/federation", ".go") {
		for _, names := range declaredNames.FindAllStringSubmatch(text, -1) {
			resources = append(resources, names[1:]...)
		}
	}
	for _, text := range filesBelow(t, "artifacts/chart/templates", ".yaml") {
		for _, pattern := range []*regexp.Regexp{chartName, chartDict} {
			for _, match := range pattern.FindAllStringSubmatch(text, -1) {
				programs = append(programs, match[1])
			}
		}
	}
	found := 0
	for page, blocks := range commandsOfPages(t) {
		for _, block := range blocks {
			for _, match := range resourceOf.FindAllStringSubmatch(block.Text, -1) {
				for resource := range strings.SplitSeq(match[1], ",") {
					found++
					if !slices.Contains(resources, resource) {
						t.Errorf("docs/%s: no resource is called %q: %s", page, resource, match[0])
					}
				}
			}
		}
		for _, match := range program.FindAllStringSubmatch(read(t, filepath.Join("docs", page)), -1) {
			found++
			// The controller manager creates the Deployment of each virtual node.
			virtualNode := strings.HasPrefix(match[1], "federation-virtual-kubelet-")
			if !virtualNode && !slices.Contains(programs, match[1]) {
				t.Errorf("docs/%s: the chart has no %s", page, match[0])
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d names were found", found)
	}
}

// docs/debugging.md must name only metrics that the programs have.
func TestMetricsForDebuggingExist(t *testing.T) {
	settings := read(t, "docs/settings.md")
	for _, match := range metric.FindAllStringSubmatch(read(t, "docs/debugging.md"), -1) {
		if !strings.Contains(settings, "`"+match[1]+"`") {
			t.Errorf("docs/settings.md has no metric %s", match[1])
		}
	}
}

// commandsOfPages returns the blocks of each page in docs/.
func commandsOfPages(t *testing.T) map[string][]pages.Block {
	t.Helper()
	all := map[string][]pages.Block{}
	for _, page := range pagesIn(t, "docs") {
		all[page] = pages.Parse(read(t, filepath.Join("docs", page)))
	}
	return all
}

// filesBelow returns the contents of the files in a folder and those below whose names have an ending.
func filesBelow(t *testing.T, folder, ending string) []string {
	t.Helper()
	var texts []string
	for _, pattern := range []string{"*", "*/*"} {
		paths, err := filepath.Glob(filepath.Join("../..", folder, pattern+ending))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			texts = append(texts, read(t, strings.TrimPrefix(path, "../../")))
		}
	}
	return texts
}
