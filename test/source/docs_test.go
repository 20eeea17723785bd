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
	// quotedTest matches names of tests on that page, where some have no prefix. prefixedTest matches names of tests on
	// other pages.
	quotedTest   = regexp.MustCompile("`((?:Test|[A-Z])[A-Za-z0-9]+[a-z][A-Z][A-Za-z0-9]+)`")
	prefixedTest = regexp.MustCompile(`\b(Test[A-Z][A-Za-z0-9]+)\b`)
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

// Every test that a page names must exist.
func TestPagesNameTestsThatExist(t *testing.T) {
	tests := allTests(t)
	named := map[string]int{}
	for _, page := range allPages(t) {
		names := prefixedTest
		if page == "docs/security.md" {
			names = quotedTest
		}
		for _, match := range names.FindAllStringSubmatch(read(t, page), -1) {
			if words.MatchString(match[1]) {
				continue
			}
			named[page]++
			if name := strings.TrimPrefix(match[1], "Test"); !strings.Contains(tests, "func Test"+name+"(") &&
				!strings.Contains(tests, `"`+name+`"`) {
				t.Errorf("%s names the test %s, which does not exist", page, match[1])
			}
		}
	}
	if named["docs/security.md"] < 15 || len(named) < 5 {
		t.Errorf("only these numbers of tests are named: %v", named)
	}
}

// allPages returns the paths of README.md and of all pages in docs.
func allPages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	err := filepath.WalkDir("../../docs", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			all = append(all, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// allTests returns the contents of all test files.
func allTests(t *testing.T) string {
	t.Helper()
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
	return tests.String()
}
