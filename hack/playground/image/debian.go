// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// PackageDir is the directory of an image with the control file of each of its Debian packages, named after the
	// package. Scanners read it from images without dpkg's own database.
	PackageDir = "/var/lib/dpkg/status.d"
	// ReleaseFile is the file of an image with Debian packages that names the distribution and its version.
	ReleaseFile = "/etc/os-release"
)

// unpackPackages returns the files of packages and of their dependencies, see dependencies and unpack. The caller must
// call cleanup, which deletes the unpacked files, once the image is written.
func unpackPackages(
	ctx context.Context, packages, without []string, cache string,
) (t *fileTree, cleanup func(), err error) {
	names, err := dependencies(ctx, packages, without)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, nil, err
	}
	archives, err := download(ctx, names, cache)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.MkdirTemp("", "playground-packages-")
	if err != nil {
		return nil, nil, err
	}
	cleanup = func() { os.RemoveAll(root) }
	if t, err = unpack(ctx, archives, root); err != nil {
		cleanup()
		return nil, nil, err
	}
	return t, cleanup, nil
}

// unpack unpacks archives of packages into the directory root. It returns the unpacked files except documentation,
// which is not used in containers. It adds the files that describe the packages, see PackageDir and ReleaseFile.
func unpack(ctx context.Context, archives []string, root string) (*fileTree, error) {
	controls := map[string]string{}
	for _, archive := range archives {
		if _, err := run(ctx, "", "dpkg", "-x", archive, root); err != nil {
			return nil, err
		}
		control, err := run(ctx, "", "dpkg-deb", "--field", archive)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(filepath.Base(archive), "_")
		controls[name] = control
	}
	for _, dir := range []string{"doc", "man", "locale", "lintian", "bug"} {
		if err := os.RemoveAll(filepath.Join(root, "usr", "share", dir)); err != nil {
			return nil, err
		}
	}
	t := newTree()
	if err := t.directoryTree(root); err != nil {
		return nil, err
	}
	for name, control := range controls {
		t.content(path.Join(PackageDir, name), control)
	}
	// The packages are those of this machine's distribution.
	return t, t.file(ReleaseFile, ReleaseFile)
}

// dependencies returns packages with all their dependencies. It leaves out the packages in without, and packages that
// are dependencies of these alone. If a dependency has alternatives, it returns the first.
func dependencies(ctx context.Context, packages, without []string) ([]string, error) {
	args := append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
		"--no-breaks", "--no-replaces", "--no-enhances"}, packages...)
	out, err := run(ctx, "", "apt-cache", args...)
	if err != nil {
		// The package lists may be missing on a new machine.
		if _, updateErr := run(ctx, "", "apt-get", "update"); updateErr != nil {
			return nil, errors.Join(err, updateErr)
		}
		if out, err = run(ctx, "", "apt-cache", args...); err != nil {
			return nil, err
		}
	}
	return closure(parseDepends(out), packages, without), nil
}

// closure returns packages with all their dependencies in alphabetical order, except packages in without and packages
// that are dependencies of these alone.
func closure(depends map[string][]string, packages, without []string) []string {
	var names []string
	next := slices.Clone(packages)
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if slices.Contains(names, name) || slices.Contains(without, name) {
			continue
		}
		names = append(names, name)
		next = append(next, depends[name]...)
	}
	slices.Sort(names)
	return names
}

// parseDepends returns the dependencies of each package in the output of apt-cache depends. A package is on a
// line of its own, and followed by its dependencies, indented. All but the last of several alternatives begin
// with a bar. The providers of a virtual package are on the lines below it, indented further.
func parseDepends(out string) map[string][]string {
	depends := map[string][]string{}
	var name string
	alternative, virtual := false, false
	for _, line := range strings.Split(out, "\n") {
		_, dependency, found := strings.Cut(line, "epends: ")
		switch {
		case found:
			// The name of a virtual package is in angle brackets.
			virtual = !alternative && strings.HasPrefix(dependency, "<")
			if !alternative && !virtual {
				depends[name] = append(depends[name], dependency)
			}
			alternative = strings.HasPrefix(line, " |")
		case strings.HasPrefix(line, "    "):
			if virtual {
				depends[name] = append(depends[name], strings.TrimSpace(line))
				virtual = false
			}
		default:
			name, alternative, virtual = line, false, false
		}
	}
	return depends
}

// download returns the archives of packages in the versions that apt would install. It downloads the ones that
// are not in the cache, in one call of apt, which reads its package lists each time.
func download(ctx context.Context, names []string, cache string) ([]string, error) {
	out, err := run(ctx, "", "apt-get", append([]string{"download", "--print-uris"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("%w; run: apt-get update", err)
	}
	var archives, missing []string
	for line := range strings.Lines(out) {
		// 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		archive := filepath.Join(cache, fields[1])
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err != nil {
			name, _, _ := strings.Cut(fields[1], "_")
			missing = append(missing, name)
		}
	}
	if len(archives) != len(names) {
		return nil, fmt.Errorf("downloading packages: apt-get has %d of %d; run: apt-get update", len(archives), len(names))
	}
	if len(missing) == 0 {
		return archives, nil
	}
	args := append([]string{"-o", "APT::Sandbox::User=root", "-q", "download"}, missing...)
	_, err = run(ctx, cache, "apt-get", args...)
	return archives, err
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		message := ""
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			message = ": " + strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("running %s %s: %w%s", name, strings.Join(args, " "), err, message)
	}
	return string(out), nil
}
