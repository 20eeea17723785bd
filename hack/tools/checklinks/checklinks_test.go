// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestBrokenLinksOfPagesAreReported(t *testing.T) {
	pages := map[string]string{
		"README.md": "# Top\n[a](docs/a.md) [b](docs/b.md) [folder](docs) [licence](LICENSE) [x](https://example.com/x)\n",
		"docs/a.md": "# A `page`, of [links](b.md)\n## Same\n## Same\n" +
			"[1](#same-1) [2](#same-2) [3](../README.md#top) [4](../README.md#bottom) [5](a.md#a-page-of-links)\n" +
			"`[code](none.md)` [6](/docs/a.md) [7](../LICENSE#L3) [8](none.md \"title\")\n" +
			"```sh\n# No heading\n[code](none.md)\n```\n[9](#no-heading)\n",
		"LICENSE": "",
	}
	read := func(name string) ([]byte, error) {
		content, ok := pages[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
	got, err := checkPages([]string{"LICENSE", "README.md", "docs/a.md"}, read)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md:2: docs/b.md: no such file",
		"docs/a.md:1: b.md: no such file",
		"docs/a.md:4: #same-2: no such heading",
		"docs/a.md:4: ../README.md#bottom: no such heading",
		"docs/a.md:5: /docs/a.md: a link has to be relative",
		"docs/a.md:5: none.md: no such file",
		"docs/a.md:10: #no-heading: no such heading",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken links (-want +got):\n%s", diff)
	}
}

func TestBrokenLinksOfTheSiteAreReported(t *testing.T) {
	site := fstest.MapFS{
		"index.html": {Data: []byte(`<a href="/docs/">1</a><a href="docs/a.html#there">2</a>` +
			`<a href="/docs/a.html#gone">3</a><a href="/">4</a>` +
			`<script src="/assets/gone.js"></script><a href="https://example.com/">5</a>`)},
		"docs/index.html": {Data: []byte(`<a href="../index.html">1</a><a href="b.html">2</a><a href="#x">3</a><p id="x">`)},
		"docs/a.html":     {Data: []byte(`<h1 id="there">a</h1><a href="../file.yaml">1</a>`)},
		"file.yaml":       {Data: []byte("{}")},
	}
	got, err := checkSite(site)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		"docs/index.html: b.html: no such file",
		"index.html: /assets/gone.js: no such file",
		"index.html: /docs/a.html#gone: no such element",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken links (-want +got):\n%s", diff)
	}
	if _, err := checkSite(fstest.MapFS{}); err == nil {
		t.Error("a site without pages is accepted")
	}
}
