// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fileTree is the content of a layer of an image, by path without the leading slash.
type fileTree struct{ entries map[string]entry }

type entry struct {
	kind    byte
	mode    int64
	link    string
	content []byte
	// source is a file on this machine, which is read when the layer is written; it is used if content is nil.
	source string
}

func newTree() *fileTree { return &fileTree{entries: map[string]entry{}} }

func (t *fileTree) add(name string, e entry) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := t.entries[dir]; !ok {
			t.entries[dir] = entry{kind: tar.TypeDir, mode: 0o755}
		}
	}
	t.entries[name] = e
}

func (t *fileTree) directory(name string, mode int64) {
	t.add(name, entry{kind: tar.TypeDir, mode: mode})
}

func (t *fileTree) content(name, text string) {
	t.add(name, entry{kind: tar.TypeReg, mode: 0o644, content: []byte(text)})
}

func (t *fileTree) link(name, target string) {
	t.add(name, entry{kind: tar.TypeSymlink, mode: 0o777, link: target})
}

// file adds a regular file, with mode 0755 if the source is executable and 0644 otherwise.
func (t *fileTree) file(name, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("image file %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("image file %s: %s is no regular file", name, source)
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	t.add(name, entry{kind: tar.TypeReg, mode: mode, source: source})
	return nil
}

// directoryTree adds all files, links and directories below the directory root of this machine, with their paths
// relative to root.
func (t *fileTree) directoryTree(root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil || name == "." {
			return err
		}
		switch {
		case d.IsDir():
			t.directory(name, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			t.link(name, target)
		case d.Type().IsRegular():
			return t.file(name, p)
		}
		return nil
	})
}

// layer returns the tree as a compressed layer, whose bytes depend on its content only. If a layer is not compressed,
// the program that pushes the image compresses it, and the digest of the image depends on this program.
func (t *fileTree) layer() (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		e := t.entries[name]
		if e.kind == tar.TypeReg && e.content == nil {
			content, err := os.ReadFile(e.source)
			if err != nil {
				return nil, err
			}
			e.content = content
		}
		header := &tar.Header{Typeflag: e.kind, Name: name, Mode: e.mode, Linkname: e.link,
			Size: int64(len(e.content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if e.kind == tar.TypeDir {
			header.Name += "/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	content := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(content, tarball.WithCompressedCaching)
}
