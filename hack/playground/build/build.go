// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"liqo.io/federation/hack/playground/state"
)

// Set is the result of a build: the paths of the programs.
type Set struct {
	// Bin is the directory with links to the programs.
	Bin string
	// Cache is the directory with all built versions of all programs.
	Cache string
	paths map[string]string
}

// Path returns the path of a program in the cache, which contains a hash of the sources and flags of the program.
func (s *Set) Path(name string) string { return s.paths[name] }

// Options are the settings of Build.
type Options struct {
	// Source is the directory hack/playground of the repository.
	Source string
	// Bin is the directory in which links to the programs are created.
	Bin string
	// Only are the names of the programs to build; empty means all.
	Only []string
	// Progress receives one line for each module. On a terminal, the line is updated during the build.
	Progress *os.File
}

// FindSource returns hack/playground in the working directory or in one of its parents. It fails if none of them
// has it.
func FindSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		source := filepath.Join(d, "hack", "playground")
		if _, err := os.Stat(filepath.Join(source, "modules", "kubernetes", "go.mod")); err == nil {
			return source, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no hack/playground/modules in %s or above it; run the playground inside the repository", dir)
		}
	}
}

// Build builds the programs that are not in the cache, and links them all into Bin. It fails if a program in Only
// is unknown or cannot be built.
func Build(ctx context.Context, o Options) (*Set, error) {
	tools, err := selectTools(o.Only)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the cache directory: %w; set HOME or XDG_CACHE_HOME", err)
	}
	set := &Set{Bin: o.Bin, Cache: filepath.Join(cache, "liqo-playground"), paths: map[string]string{}}
	hashes := map[string]string{}
	for _, t := range tools {
		hash, ok := hashes[t.module]
		if !ok {
			if hash, err = moduleHash(filepath.Join(o.Source, t.module)); err != nil {
				return nil, err
			}
			hashes[t.module] = hash
		}
		set.paths[t.name] = filepath.Join(set.Cache, t.name, t.version+"-"+key(t, hash), t.name)
	}
	if missing := set.missing(tools); len(missing) > 0 {
		if err := set.buildMissing(ctx, o, tools); err != nil {
			return nil, err
		}
	}
	return set, set.link()
}

func (s *Set) missing(tools []tool) []tool {
	var missing []tool
	for _, t := range tools {
		if _, err := os.Stat(s.paths[t.name]); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

func (s *Set) buildMissing(ctx context.Context, o Options, tools []tool) error {
	unlock, err := state.Lock(ctx, filepath.Join(s.Cache, "lock"), func() {
		fmt.Fprintln(o.Progress, "waiting until another playground process has built programs")
	})
	if err != nil {
		return err
	}
	defer unlock()
	type group struct{ module, tags, ldflags string }
	groups := map[group][]tool{}
	var order []group
	for _, t := range s.missing(tools) {
		g := group{t.module, t.tags, t.ldflags}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], t)
	}
	for n, g := range order {
		title := fmt.Sprintf("[%d/%d] building %s", n+1, len(order), names(groups[g]))
		if err := s.buildGroup(ctx, o, title, groups[g]); err != nil {
			return err
		}
	}
	return nil
}

func names(tools []tool) string {
	var out []string
	for _, t := range tools {
		out = append(out, t.name)
	}
	return strings.Join(out, ", ")
}

// buildGroup builds tools that have the same module and flags with one command, which compiles them in parallel. The
// title names them in the progress.
func (s *Set) buildGroup(ctx context.Context, o Options, title string, tools []tool) error {
	temporary, err := os.MkdirTemp(s.Cache, "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	first := tools[0]
	args := []string{"build", "-v", "-trimpath", "-buildvcs=false", "-tags", first.tags,
		"-ldflags", strings.TrimSpace("-s -w " + first.ldflags), "-o", temporary + "/"}
	for _, t := range tools {
		args = append(args, t.pkg)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(o.Source, first.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	p := newProgress(o.Progress, title)
	cmd.Stderr = p
	err = cmd.Run()
	p.finish(err == nil)
	if ctx.Err() != nil {
		return fmt.Errorf("building %s: %w", names(tools), ctx.Err())
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("go is not in PATH; install Go 1.26 or later")
	}
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", names(tools), err, p.failure())
	}
	for _, t := range tools {
		if err := s.keep(filepath.Join(temporary, outputName(t.pkg)), t); err != nil {
			return err
		}
	}
	return nil
}

// keep moves a program into the cache atomically.
func (s *Set) keep(built string, t tool) error {
	target := s.paths[t.name]
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.Rename(built, target)
}

// outputName returns the file name that go build gives a program: the last element of the package path, except a
// major version.
func outputName(pkg string) string {
	base := filepath.Base(pkg)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return filepath.Base(filepath.Dir(pkg))
	}
	return base
}

func (s *Set) link() error {
	if err := os.MkdirAll(s.Bin, 0o755); err != nil {
		return err
	}
	for name, path := range s.paths {
		link := filepath.Join(s.Bin, name)
		if old, err := os.Readlink(link); err == nil && old == path {
			continue
		}
		temporary := filepath.Join(s.Bin, "."+name)
		if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(path, temporary); err != nil {
			return err
		}
		if err := os.Rename(temporary, link); err != nil {
			return err
		}
	}
	return nil
}

// key returns a hash of the sources and flags of a program, which is part of its path in the cache.
func key(t tool, module string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s %s %s %q %s", runtime.Version(), runtime.GOARCH, module, t.pkg, t.version, t.tags, t.ldflags)
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// moduleHash returns a hash of the requirements of a module, and of the Go files in its root directory and in
// ownPrograms, without tests.
func moduleHash(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir && !ownPrograms[d.Name()] {
			return filepath.SkipDir
		}
		name := d.Name()
		if d.IsDir() || !(strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum") ||
			strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Fprintln(h, name)
		_, err = io.Copy(h, f)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// ownPrograms are the directories of the playground's own module with programs that run on nodes.
var ownPrograms = map[string]bool{"nodeinit": true, "volumes": true}
