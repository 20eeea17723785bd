// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image packs static programs into container images, without a registry or a container runtime. The same
// input always results in the same bytes.
package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// NonRoot is the user, UID:GID, as which images run by default.
const NonRoot = "65532:65532"

// Config describes an image.
type Config struct {
	// Tag is the full name of the image, for example liqo.io/controller:dev.
	Tag string
	// Binary is the static program that the image runs. Its path in the image is / and its file name.
	Binary string
	// User is UID:GID. Empty means NonRoot.
	User string
	// Files maps paths in the image to files on this machine.
	Files map[string]string
	// Links maps paths of symbolic links in the image to the links' targets.
	Links map[string]string
	// Packages are Debian packages that are unpacked into the image with their dependencies. Their maintainer
	// scripts do not run.
	Packages []string
	// WithoutPackages are packages to leave out, together with packages that are dependencies of these alone, for
	// example packages that only maintainer scripts use.
	WithoutPackages []string
	// PackageCache is the directory that downloaded packages are kept in.
	PackageCache string
}

// Build returns the image. It fails if the tag is invalid, or a file or package is missing.
func Build(ctx context.Context, c Config) (v1.Image, error) {
	if _, err := name.NewTag(c.Tag, name.StrictValidation); err != nil {
		return nil, fmt.Errorf("image tag: %w; use a full name, for example liqo.io/controller:dev", err)
	}
	if c.User == "" {
		c.User = NonRoot
	}
	program := "/" + filepath.Base(c.Binary)
	tree := newTree()
	tree.directory("/tmp", 0o1777)
	tree.content("/etc/passwd", "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")
	if err := tree.file(program, c.Binary); err != nil {
		return nil, err
	}
	for path, source := range c.Files {
		if err := tree.file(path, source); err != nil {
			return nil, err
		}
	}
	for path, target := range c.Links {
		tree.link(path, target)
	}
	trees := []*fileTree{tree}
	if len(c.Packages) > 0 {
		packages, cleanup, err := unpackPackages(ctx, c.Packages, c.WithoutPackages, c.PackageCache)
		if err != nil {
			return nil, err
		}
		defer cleanup()
		trees = []*fileTree{packages, tree}
	}
	img := empty.Image
	for _, t := range trees {
		layer, err := t.layer()
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: []string{program},
		User:       c.User,
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"},
		WorkingDir: "/",
	}
	return mutate.ConfigFile(img, file)
}

// Write writes an image with a tag to a docker archive atomically.
func Write(path, tag string, img v1.Image) error {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".partial"
	if err := tarball.WriteToFile(temporary, ref, img); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(temporary, path)
}

// Digest returns the digest of the image in a docker archive: the digest of its manifest. A registry has the same
// digest if the archive was pushed without compressing its layers again. It fails unless the archive has exactly one
// image.
func Digest(path string) (string, error) {
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return "", fmt.Errorf("%s is no image archive: %w", path, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return digest.String(), nil
}

// Archived describes the image in a docker archive.
type Archived struct {
	Tags []string
	// ID is the digest of the image's configuration, which differs for each content of the image.
	ID string
}

// Read returns the tags and the ID of the image in a docker archive. It fails unless the archive has exactly one image,
// with a tag.
func Read(path string) (Archived, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return Archived{}, fmt.Errorf("%s is no image archive: %w", path, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) == 0 {
		return Archived{}, fmt.Errorf("%s has %d images; it must have one, with a tag", path, len(manifest))
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return Archived{}, fmt.Errorf("%s is no image archive: %w", path, err)
	}
	id, err := img.ConfigName()
	if err != nil {
		return Archived{}, fmt.Errorf("%s: %w", path, err)
	}
	return Archived{Tags: manifest[0].RepoTags, ID: strings.TrimPrefix(id.String(), "sha256:")}, nil
}
