// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"liqo.io/federation/hack/tools/pages"
)

var (
	fence      = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	inlineCode = regexp.MustCompile("(`+)[^`].*?(`+)")
	// link matches the target of a link or an image, up to a title.
	link = regexp.MustCompile(`\]\(<?([^()\s<>]+(?:\([^()\s]*\))?[^()\s<>]*)>?(?: +"[^"]*")?\)`)
)

// page is a Markdown page: its links by line, and the anchors of its headings.
type page struct {
	links   []reference
	anchors map[string]bool
}

// reference is a link of a page.
type reference struct {
	line   int
	target string
}

// parse reads the links and headings of a page, outside of code.
func parse(text string) page {
	p := page{anchors: map[string]bool{}}
	open, number := "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if mark := fence.FindStringSubmatch(line); mark != nil {
			switch {
			case open == "":
				open = mark[1]
			case strings.HasPrefix(mark[1], open):
				open = ""
			}
			continue
		}
		if open != "" {
			continue
		}
		if anchor := pages.Anchor(line); anchor != "" {
			p.add(anchor)
		}
		for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, reference{number, match[1]})
		}
	}
	return p
}

// add adds the anchor of a heading; headings with the same text are numbered.
func (p page) add(anchor string) {
	unique := anchor
	for i := 1; p.anchors[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[unique] = true
}

// checkPages returns a line for each link of the Markdown pages among files that leads to no file, or to no heading.
func checkPages(files []string, read func(string) ([]byte, error)) ([]string, error) {
	exists := map[string]bool{}
	pages := map[string]page{}
	for _, file := range files {
		for at := file; at != "."; at = path.Dir(at) {
			exists[at] = true
		}
		if path.Ext(file) != ".md" {
			continue
		}
		text, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		pages[file] = parse(string(text))
	}
	var broken []string
	for _, file := range files {
		for _, link := range pages[file].links {
			if problem := follow(file, link.target, exists, pages); problem != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", file, link.line, link.target, problem))
			}
		}
	}
	return broken, nil
}

// follow returns why the target of a link of a page leads nowhere, or "".
func follow(from, target string, exists map[string]bool, pages map[string]page) string {
	parsed, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if parsed.Scheme != "" || parsed.Host != "" {
		return ""
	}
	to := from
	switch {
	case strings.HasPrefix(parsed.Path, "/"):
		return "a link has to be relative"
	case parsed.Path != "":
		to = path.Join(path.Dir(from), parsed.Path)
	}
	if !exists[to] {
		return "no such file"
	}
	if p, ok := pages[to]; ok && parsed.Fragment != "" && !p.anchors[parsed.Fragment] {
		return "no such heading"
	}
	return ""
}
