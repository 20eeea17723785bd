// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// guarded matches the kinds of chart manifests that docs/security.md has to explain.
	guarded = regexp.MustCompile(
		`(?m)^kind: (?:Cluster)?(?:Role|ServiceAccount|ValidatingAdmissionPolicy|MutatingAdmissionPolicy|` +
			`NetworkPolicy)\nmetadata:\n  name: (\S+)`)
	// quotedTest matches names of tests on that page.
	quotedTest = regexp.MustCompile("`((?:Test|[A-Z])[A-Za-z0-9]+[a-z][A-Z][A-Za-z0-9]+)`")
	// words matches names on that page that look like tests and are kinds.
	words = regexp.MustCompile(`^(PeeringToken|VirtualNode|ShadowPods?|ServiceAccounts?)$`)
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// docs/security.md must explain every role, policy and account of the chart.
func TestSecurityPageIsComplete(t *testing.T) {
	page := read(t, "docs/security.md")
	templates, err := filepath.Glob("../../artifacts/chart/templates/*.yaml")
	if err != nil || len(templates) < 10 {
		t.Fatalf("%d templates, %v", len(templates), err)
	}
	found := 0
	for _, template := range templates {
		content, err := os.ReadFile(template)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range guarded.FindAllStringSubmatch(string(content), -1) {
			if match[1] == "{{" {
				continue
			}
			found++
			if !strings.Contains(page, "`"+match[1]+"`") {
				t.Errorf("docs/security.md does not explain %s of %s", match[1], filepath.Base(template))
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found", found)
	}
}

// Every test that docs/security.md names must exist.
func TestSecurityPageNamesTestsThatExist(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." && entry.Name() != "." {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			tests.Write(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, match := range quotedTest.FindAllStringSubmatch(read(t, "docs/security.md"), -1) {
		if words.MatchString(match[1]) {
			continue
		}
		named++
		if name := strings.TrimPrefix(match[1], "Test"); !strings.Contains(tests.String(),
			"func Test"+name+"(") && !strings.Contains(tests.String(), `"`+name+`"`) {
			t.Errorf("no test is called %s", match[1])
		}
	}
	if named < 15 {
		t.Errorf("only %d tests are named", named)
	}
}
