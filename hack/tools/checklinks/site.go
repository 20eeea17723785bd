// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
)

// checkSite returns a line for each link in the HTML files of site that leads to no file of site, or to no element of
// that file. It fails when there is no HTML file.
func checkSite(site fs.FS) ([]string, error) {
	exists := map[string]bool{}
	documents := map[string]document{}
	var names []string
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		exists[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		content, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		names = append(names, name)
		documents[name], err = readDocument(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the site: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("reading the site: no HTML file; run make docs")
	}
	var broken []string
	for _, name := range names {
		for _, target := range documents[name].links {
			if problem := followHTML(name, target, exists, documents); problem != "" {
				broken = append(broken, fmt.Sprintf("%s: %s: %s", name, target, problem))
			}
		}
	}
	return broken, nil
}

// document is an HTML file: its links, each once, and the identifiers of its elements.
type document struct {
	links []string
	ids   map[string]bool
}

func readDocument(content []byte) (document, error) {
	root, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		return document{}, err
	}
	d := document{ids: map[string]bool{}}
	seen := map[string]bool{}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				d.ids[attribute.Val] = true
			case "href", "src":
				if !seen[attribute.Val] {
					seen[attribute.Val] = true
					d.links = append(d.links, attribute.Val)
				}
			}
		}
	}
	return d, nil
}

// followHTML returns why the target of a link of an HTML file leads nowhere, or "".
func followHTML(from, target string, exists map[string]bool, documents map[string]document) string {
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
		to = strings.TrimPrefix(path.Clean(parsed.Path), "/")
	case parsed.Path != "":
		to = path.Join(path.Dir(from), parsed.Path)
	}
	if to == "" || strings.HasSuffix(parsed.Path, "/") {
		to = path.Join(to, "index.html")
	}
	if !exists[to] {
		return "no such file"
	}
	if d, ok := documents[to]; ok && parsed.Fragment != "" && !d.ids[parsed.Fragment] {
		return "no such element"
	}
	return ""
}
