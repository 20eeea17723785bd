// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Checklinks reports the links that lead nowhere. Without arguments it checks the Markdown pages of the current
// directory's Git repository: links to pages, headings and files. With the argument -site it checks the HTML files of
// a directory, which make docs rendered. Links to other hosts are not followed. It prints one line per broken link,
// and exits with status 1 when there is one.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	site := flag.String("site", "", "directory of HTML files, for example _output/docs; empty checks the Markdown pages")
	flag.Parse()
	broken, err := run(*site)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checklinks:", err)
		os.Exit(1)
	}
	for _, line := range broken {
		fmt.Println(line)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

func run(site string) ([]string, error) {
	if site != "" {
		return checkSite(os.DirFS(site))
	}
	files, err := trackedFiles()
	if err != nil {
		return nil, err
	}
	return checkPages(files, os.ReadFile)
}

// trackedFiles returns the files that Git tracks or would add, relative to the current directory.
func trackedFiles() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of the repository: %w", err)
	}
	var files []string
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSuffix(file, "\n")
		if _, err := os.Lstat(filepath.FromSlash(file)); err == nil {
			files = append(files, file)
		}
	}
	return files, nil
}
