// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom lists the contents of an image in the format SPDX 2.3: the Go modules of its program, from the build
// information in the program, and its Debian packages, from their control files. The same image and time always
// result in the same bytes.
package sbom

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"liqo.io/federation/hack/playground/image"
)

// FromArchive returns an SPDX document in JSON that lists the contents of the image in a docker archive. The document
// has created as its time of creation. FromArchive fails unless the archive has one image with a tag, and the entry
// point of the image is a Go program.
func FromArchive(archive string, created time.Time) ([]byte, error) {
	described, err := image.Read(archive)
	if err != nil {
		return nil, err
	}
	tag, err := name.NewTag(described.Tags[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	digest, err := image.Digest(archive)
	if err != nil {
		return nil, err
	}
	c, err := read(archive)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	info, err := buildinfo.Read(bytes.NewReader(c.program))
	if err != nil {
		return nil, fmt.Errorf("%s: reading the build information of %s: %w", archive, c.entrypoint, err)
	}
	main := newElement("Image", tag.RepositoryStr(), tag.TagStr(), imageURL(tag, digest, c.architecture))
	main.Purpose = "CONTAINER"
	main.Checksums = []checksum{{Algorithm: "SHA256", Value: strings.TrimPrefix(digest, "sha256:")}}
	d := newDocument(tag.Name(), created, main)
	program := programOf(info, tag.TagStr())
	d.add(main.ID, "CONTAINS", program)
	d.add(program.ID, "DEPENDS_ON", modules(info)...)
	distribution := fields(c.release, "=")
	for _, control := range c.controls {
		p, err := debianPackage(control, distribution)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		d.add(main.ID, "CONTAINS", p)
	}
	return d.marshal()
}

// contents are the parts of an image that an SBOM is made of.
type contents struct {
	architecture string
	entrypoint   string
	program      []byte
	// controls are the control files of Debian packages, in the order of the packages' names.
	controls []string
	// release is the content of image.ReleaseFile. It is empty in images without Debian packages.
	release string
}

// read returns the parts of the image in a docker archive.
func read(archive string) (*contents, error) {
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	if len(file.Config.Entrypoint) == 0 {
		return nil, errors.New("the image has no entry point")
	}
	c := &contents{architecture: file.Architecture, entrypoint: file.Config.Entrypoint[0]}
	files := mutate.Extract(img)
	defer files.Close()
	controls := map[string]string{}
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean("/" + header.Name)
		wanted := name == c.entrypoint || name == image.ReleaseFile || path.Dir(name) == image.PackageDir
		if header.Typeflag != tar.TypeReg || !wanted {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		switch name {
		case c.entrypoint:
			c.program = content
		case image.ReleaseFile:
			c.release = string(content)
		default:
			controls[name] = string(content)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(controls)) {
		c.controls = append(c.controls, controls[name])
	}
	return c, nil
}

func imageURL(tag name.Tag, digest, architecture string) string {
	return fmt.Sprintf("pkg:oci/%s@%s?arch=%s&repository_url=%s&tag=%s", path.Base(tag.RepositoryStr()), escape(digest),
		escape(architecture), escape(tag.Context().Name()), escape(tag.TagStr()))
}

// programOf returns the package of a program, with the version of its image, because programs are built without a
// version.
func programOf(info *debug.BuildInfo, version string) element {
	locator := goURL(info.Main.Path, version)
	if dir := strings.TrimPrefix(info.Path, info.Main.Path+"/"); dir != info.Path {
		locator += "#" + dir
	}
	p := newElement("Program", info.Path, version, locator)
	p.Purpose = "APPLICATION"
	return p
}

// modules returns the packages of the modules that a program contains, and of the standard library of Go.
func modules(info *debug.BuildInfo) []element {
	version := strings.TrimPrefix(info.GoVersion, "go")
	packages := []element{newElement("Go", "stdlib", version, goURL("stdlib", version))}
	for _, m := range info.Deps {
		// A replacement by a directory has no version.
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		packages = append(packages, newElement("Go", m.Path, m.Version, goURL(m.Path, m.Version)))
	}
	for i := range packages {
		packages[i].Purpose = "LIBRARY"
	}
	return packages
}

// goURL returns the URL of a module. It keeps capitals, which databases of vulnerabilities distinguish, and which
// readers of package URLs ignore.
func goURL(module, version string) string { return "pkg:golang/" + module + "@" + escape(version) }

// debianPackage returns the package that a control file describes. It fails if the file has no name or version.
func debianPackage(control string, distribution map[string]string) (element, error) {
	f := fields(control, ":")
	name, version := f["Package"], f["Version"]
	if name == "" || version == "" {
		return element{}, fmt.Errorf("a control file has no package or version: %q", control)
	}
	vendor := distribution["ID"]
	if vendor == "" {
		vendor = "debian"
	}
	locator := fmt.Sprintf("pkg:deb/%s/%s@%s?arch=%s", vendor, escape(name), escape(version), escape(f["Architecture"]))
	if release := distribution["VERSION_ID"]; release != "" {
		locator += "&distro=" + escape(vendor+"-"+release)
	}
	p := newElement("Deb", name, version, locator)
	// Distributions report vulnerabilities of source packages.
	source, sourceVersion, _ := strings.Cut(f["Source"], " ")
	if source == "" {
		source = name
	}
	if sourceVersion = strings.Trim(sourceVersion, "()"); sourceVersion == "" {
		sourceVersion = version
	}
	p.SourceInfo = fmt.Sprintf("built from the source package %s %s", source, sourceVersion)
	return p, nil
}

// fields parses lines that consist of a key, a separator and a value, and returns the values by key, without quotes. It
// ignores other lines.
func fields(text, separator string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		// Lines that begin with a space continue the value of the line before.
		key, value, found := strings.Cut(line, separator)
		if found && !strings.HasPrefix(line, " ") {
			values[key] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return values
}
