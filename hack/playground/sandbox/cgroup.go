// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupMount = "/sys/fs/cgroup"

// CgroupVersion returns the version of the control groups: 2 for the unified hierarchy, and otherwise 1. In a
// hybrid hierarchy, the controllers are in version 1. It fails if control groups are not mounted.
func CgroupVersion() (int, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &s); err != nil {
		return 0, fmt.Errorf("reading %s: %w; control groups must be mounted there", cgroupMount, err)
	}
	if s.Type == unix.CGROUP2_SUPER_MAGIC {
		return 2, nil
	}
	return 1, nil
}

// MakeCgroup creates a control group in every hierarchy. The kubelet requires that its root control group exists.
func MakeCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		dir := root
		for _, element := range strings.Split(strings.Trim(name, "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, element)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("creating control group: %w", err)
			}
			if err := errors.Join(inheritCPUs(parent, dir), delegate(dir), weigh(dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCPUs gives a new cpuset of version 1 the processors of its parent. Processes cannot join a cpuset
// without processors.
func inheritCPUs(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(strings.TrimSpace(string(own))) > 0 {
			continue
		}
		if err != nil {
			return err
		}
		value, err := os.ReadFile(filepath.Join(parent, file))
		// In version 2 an empty cpuset has the processors of its parent, and the root has no such file.
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(strings.TrimSpace(string(value))) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// weigh sets the weight of a control group to the default times the number of processors, as the kubelet does for
// all pods of a node. With the default alone, all pods together would get the share of a single daemon.
func weigh(dir string) error {
	for _, weight := range []struct {
		file string
		unit int
	}{{"cpu.shares", 1024}, {"cpu.weight", 100}} {
		// cpu.shares exists in version 1 and cpu.weight in version 2, if the CPU controller is enabled.
		file, err := os.OpenFile(filepath.Join(dir, weight.file), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("setting the weight of a control group: %w", err)
		}
		_, err = file.WriteString(strconv.Itoa(weight.unit * runtime.NumCPU()))
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("setting the weight of control group %s: %w", dir, err)
		}
	}
	return nil
}

// delegate enables all controllers of a control group of version 2 for the groups below it.
func delegate(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("enabling controller %s: %w", c, err)
		}
	}
	return nil
}

// RemoveCgroups deletes a control group, and all groups below it, in every hierarchy. A group stays in use for some
// time after its last process ends: RemoveCgroups retries until ctx ends.
func RemoveCgroups(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := removeCgroup(ctx, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// hierarchies returns the root directories of all hierarchies of control groups.
func hierarchies() ([]string, error) {
	version, err := CgroupVersion()
	if err != nil {
		return nil, err
	}
	if version == 2 {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		// Symbolic links are further names of controllers that share a hierarchy.
		if e.IsDir() {
			roots = append(roots, filepath.Join(cgroupMount, e.Name()))
		}
	}
	return roots, nil
}

func removeCgroup(ctx context.Context, dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	// Children sort after their parents, and must be deleted first.
	sort.Sort(sort.Reverse(sort.StringSlice(dirs)))
	for _, d := range dirs {
		for {
			err := unix.Rmdir(d)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("deleting control group %s: %w", d, err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for the end of control group %s: %w", d, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
