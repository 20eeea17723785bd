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

// CgroupVersion returns 2 on a machine with the unified hierarchy only, else 1
// (also for hybrid ones, where the controllers are those of version 1).
func CgroupVersion() (int, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &s); err != nil {
		return 0, fmt.Errorf("%s: %w; the playground needs control groups mounted there", cgroupMount, err)
	}
	if s.Type == unix.CGROUP2_SUPER_MAGIC {
		return 2, nil
	}
	return 1, nil
}

// MakeCgroup makes the control group of that name in every hierarchy. The
// kubelet expects the root that it is given to exist.
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
				return fmt.Errorf("make control group: %w", err)
			}
			if err := errors.Join(inheritCPUs(parent, dir), delegate(dir), weigh(dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCPUs gives a new group of a version 1 cpuset what its parent has:
// without processors of its own it takes no process.
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
		// On version 2 an empty value means the parent's, and the root has none.
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

// weigh gives a group the weight of as many processes as there are processors,
// as the kubelet gives it to all pods of a node together. With the default of
// one, everything in pods would wait for each daemon beside them.
func weigh(dir string) error {
	for _, weight := range []struct {
		file string
		unit int
	}{{"cpu.shares", 1024}, {"cpu.weight", 100}} {
		// Version 1 has the one, version 2 the other, and only where processors
		// are controlled; none can be made.
		file, err := os.OpenFile(filepath.Join(dir, weight.file), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("weigh control group: %w", err)
		}
		_, err = file.WriteString(strconv.Itoa(weight.unit * runtime.NumCPU()))
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("weigh control group %s: %w", dir, err)
		}
	}
	return nil
}

// delegate lets the groups below a version 2 group use the controllers that it has.
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
			return fmt.Errorf("delegate %s: %w", c, err)
		}
	}
	return nil
}

// RemoveCgroups removes the control group of that name, and all below it, from
// every hierarchy. The kernel may need a moment after the last process ended.
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

// hierarchies returns the roots of all control group hierarchies.
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
		// Co-mounted controllers have symbolic links as second names.
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
	// A child sorts after its parent.
	sort.Sort(sort.Reverse(sort.StringSlice(dirs)))
	for _, d := range dirs {
		for {
			err := unix.Rmdir(d)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("remove control group %s: %w", d, err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("control group %s is still in use: %w", d, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
