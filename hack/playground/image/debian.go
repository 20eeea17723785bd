// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// unpackPackages returns the files of the packages and of all that they depend
// on. cleanup removes the unpacked copies.
func unpackPackages(ctx context.Context, packages []string, cache string) (t *fileTree, cleanup func(), err error) {
	closure, err := dependencies(ctx, packages)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, nil, err
	}
	root, err := os.MkdirTemp("", "playground-packages-")
	if err != nil {
		return nil, nil, err
	}
	cleanup = func() { os.RemoveAll(root) }
	for _, p := range closure {
		archive, err := download(ctx, p, cache)
		if err == nil {
			_, err = run(ctx, "", "dpkg", "-x", archive, root)
		}
		if err != nil {
			cleanup()
			return nil, nil, err
		}
	}
	// Nobody reads manuals in a container.
	for _, dir := range []string{"doc", "man", "locale", "lintian", "bug"} {
		if err := os.RemoveAll(filepath.Join(root, "usr", "share", dir)); err != nil {
			cleanup()
			return nil, nil, err
		}
	}
	t = newTree()
	if err := t.directoryTree(root); err != nil {
		cleanup()
		return nil, nil, err
	}
	return t, cleanup, nil
}

func dependencies(ctx context.Context, packages []string) ([]string, error) {
	args := append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
		"--no-breaks", "--no-replaces", "--no-enhances"}, packages...)
	out, err := run(ctx, "", "apt-cache", args...)
	if err != nil {
		// A fresh machine has no package lists yet.
		if _, updateErr := run(ctx, "", "apt-get", "update"); updateErr != nil {
			return nil, errors.Join(err, updateErr)
		}
		if out, err = run(ctx, "", "apt-cache", args...); err != nil {
			return nil, err
		}
	}
	return parseDepends(out), nil
}

// parseDepends picks the real packages out of what `apt-cache depends` prints:
// each on a line of its own, and indented below it what it depends on.
func parseDepends(out string) []string {
	var names []string
	for _, line := range strings.Split(out, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '<' || strings.Contains(line, ":") {
			continue
		}
		names = append(names, line)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// download returns the archive of the version that apt would install, and
// fetches it only once.
func download(ctx context.Context, name, cache string) (string, error) {
	out, err := run(ctx, "", "apt-get", "download", "--print-uris", name)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(out)
	if len(fields) < 2 {
		return "", fmt.Errorf("apt-get cannot download %s; run: apt-get update", name)
	}
	archive := filepath.Join(cache, fields[1])
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	_, err = run(ctx, cache, "apt-get", "-o", "APT::Sandbox::User=root", "-q", "download", name)
	return archive, err
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
		return "", fmt.Errorf("%s %s: %w%s", name, strings.Join(args, " "), err, message)
	}
	return string(out), nil
}
