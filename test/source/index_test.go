// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	linkedPage = regexp.MustCompile(`\]\(([^)#]+\.md)\)`)
	section    = regexp.MustCompile(`(?m)^## (.+)$`)
	// evidence matches links in README.md from a feature to tests: names of test functions, and
	// their file.
	evidence = regexp.MustCompile(`\[(\w+(?:, \w+)*)\]\((test/\S+\.go)\)`)
	// opening matches the first sentence of a page, which states what the reader can do afterwards.
	opening = regexp.MustCompile(`^# .+\n\n(After|With) this (page|tutorial) (you|an administrator) `)
)

// docs/README.md must link every page once, in one of its four kinds of documentation.
func TestIndexLinksEveryPageOnce(t *testing.T) {
	index := read(t, "docs/README.md")
	var kinds []string
	for _, match := range section.FindAllStringSubmatch(index, -1) {
		kinds = append(kinds, match[1])
	}
	if diff := cmp.Diff([]string{"Tutorials", "How-to guides", "Reference", "Explanation"}, kinds); diff != "" {
		t.Errorf("sections of docs/README.md (-want +got):\n%s", diff)
	}
	var linked []string
	for _, match := range linkedPage.FindAllStringSubmatch(index, -1) {
		linked = append(linked, match[1])
	}
	slices.Sort(linked)
	want := []string{"adr/README.md"}
	for _, page := range pagesIn(t, "docs") {
		if page != "README.md" {
			want = append(want, page)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, linked); diff != "" {
		t.Errorf("pages that docs/README.md links (-want +got):\n%s", diff)
	}
}

// Every page must begin with what its reader can do afterwards. A generated page has that sentence
// in its generator.
func TestPagesOpenWithTheirPurpose(t *testing.T) {
	for _, page := range pagesIn(t, "docs") {
		text := read(t, filepath.Join("docs", page))
		if !opening.MatchString(text) && !strings.Contains(text, "This page is written by") {
			t.Errorf("docs/%s does not open with \"After this page you …\"", page)
		}
	}
}

// The test functions that README.md names as evidence of a feature must be in the files that it
// links.
func TestFeaturesNameTestsThatExist(t *testing.T) {
	found := 0
	for _, match := range evidence.FindAllStringSubmatch(read(t, "README.md"), -1) {
		file := read(t, match[2])
		for name := range strings.SplitSeq(match[1], ", ") {
			found++
			declared := regexp.MustCompile(`(?m)^func (\(\w+ \*?\w+\) )?` + name + `\(`)
			if !declared.MatchString(file) {
				t.Errorf("%s has no func %s", match[2], name)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d tests were found", found)
	}
}

// docs/adr/README.md must list every decision once, by number and title.
func TestDecisionsAreListed(t *testing.T) {
	list := read(t, "docs/adr/README.md")
	for _, page := range pagesIn(t, "docs/adr") {
		if page == "README.md" {
			continue
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(read(t, filepath.Join("docs/adr", page)), "# "), "\n")
		number, name, _ := strings.Cut(title, ". ")
		if row := fmt.Sprintf("\n| %s | [%s](%s) |", number, name, page); strings.Count(list, row) != 1 {
			t.Errorf("docs/adr/README.md does not have the row %q once", row)
		}
	}
}

// pagesIn returns the file names of the pages in a folder.
func pagesIn(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*.md"))
	if err != nil || len(paths) < 2 {
		t.Fatalf("%d pages in %s, %v", len(paths), folder, err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}
