// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Checkcommands reports blocks of commands in Markdown pages that have no mark, blocks with the mark "sh run" that no
// test executes, and samples that no test uses. It reads the pages of the current directory's Git repository, the
// calls of runsThePage in test/e2e, and the targets of make in hack/test-full.sh. It prints the number of blocks with
// each mark, or one line per problem, and exits with status 1 when there is one.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"liqo.io/federation/hack/tools/pages"
)

var (
	// call matches a call of runsThePage with the page, and the section if it has one.
	call = regexp.MustCompile(`\brunsThePage\(t, \w+, "([^"#]+)(?:#([^"]*))?"`)
	made = regexp.MustCompile(`\bmake ([a-z0-9-]+)`)
	// prompt matches a line of a terminal.
	prompt = regexp.MustCompile(`(?m)^\$ `)
)

// shells are the languages of commands.
var shells = []string{"sh", "bash", "console", "shell", "shellsession", "zsh"}

func main() {
	summary, problems, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkcommands:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Println("summary:", summary)
}

func run() (summary string, problems []string, err error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		return "", nil, fmt.Errorf("listing the pages: %w", err)
	}
	contents := map[string]string{}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It is deleted and not committed.
		}
		if err != nil {
			return "", nil, fmt.Errorf("reading a page: %w", err)
		}
		contents[name] = string(text)
	}
	script, err := os.ReadFile("hack/test-full.sh")
	if err != nil {
		return "", nil, fmt.Errorf("reading the long tests: %w", err)
	}
	files, err := filepath.Glob("test/e2e/*_test.go")
	if err != nil {
		return "", nil, fmt.Errorf("listing the tests: %w", err)
	}
	tests := strings.Builder{}
	for _, file := range append(files, "test/integration/samples_test.go", "hack/demo.sh") {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", nil, fmt.Errorf("reading a test: %w", err)
		}
		tests.Write(text)
	}
	samples, err := filepath.Glob("artifacts/samples/*.yaml")
	if err != nil {
		return "", nil, fmt.Errorf("listing the samples: %w", err)
	}
	summary, problems = check(contents, samples, tests.String(), string(script))
	return summary, problems, nil
}

// check returns the counts of the blocks of pages, and a line for each problem. samples are the names of the sample
// files, tests has the source of the tests and of the demo, and script has hack/test-full.sh.
func check(contents map[string]string, samples []string, tests, script string) (summary string, problems []string) {
	// executed has each "page" or "page#section" that a test executes. The value is whether the page or section has
	// commands.
	executed, targets, counts := map[string]bool{}, []string(nil), map[string]int{}
	for _, match := range call.FindAllStringSubmatch(tests, -1) {
		executed[place("docs/"+match[1], match[2])] = false
	}
	for _, match := range made.FindAllStringSubmatch(script, -1) {
		targets = append(targets, match[1])
	}
	for name, text := range contents {
		for _, block := range pages.Parse(text) {
			report := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("%s:%d: ", name, block.Line)+fmt.Sprintf(format, args...))
			}
			language, _, _ := strings.Cut(block.Info, " ")
			switch {
			case block.Info == "":
				report("the block has no language: use text for output, or a mark of commands")
				continue
			case block.Info == pages.Run, block.Info == pages.External, block.Info == pages.Example:
				counts[block.Info]++
			case slices.Contains(shells, language):
				report("commands have the mark %q, %q or %q, not %q", pages.Run, pages.External, pages.Example, block.Info)
				continue
			}
			if prompt.MatchString(block.Text) {
				report("a command has a block of its own, without a prompt and output")
			}
			if block.Info != pages.Run {
				continue
			}
			if own := block.Targets(); own != nil {
				for _, target := range own {
					if !slices.Contains(targets, target) {
						report("hack/test-full.sh does not run make %s", target)
					}
				}
				continue
			}
			whole, section := place(name, ""), place(name, block.Section)
			_, byPage := executed[whole]
			_, bySection := executed[section]
			switch {
			case byPage:
				executed[whole] = true
			case bySection:
				executed[section] = true
			default:
				report(`no test runs it: call runsThePage with %q`, strings.TrimPrefix(section, "docs/"))
			}
		}
	}
	for place, found := range executed {
		if !found {
			problems = append(problems, place+": a test runs it, and it has no block "+pages.Run)
		}
	}
	for _, sample := range samples {
		if name := filepath.Base(sample); !strings.Contains(tests, name) &&
			!strings.Contains(tests, `"`+strings.TrimSuffix(name, ".yaml")+`"`) {
			problems = append(problems, sample+": no test uses it")
		}
	}
	slices.Sort(problems)
	return fmt.Sprintf("blocks of commands: %d run, %d external, %d examples",
		counts[pages.Run], counts[pages.External], counts[pages.Example]), problems
}

// place returns the name of a section of a page; the name of the page if the section is empty.
func place(page, section string) string {
	if section == "" {
		return page
	}
	return page + "#" + section
}
