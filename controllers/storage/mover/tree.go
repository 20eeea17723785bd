// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// lostAndFound belongs to a file system and not to its files.
const lostAndFound = "lost+found"

// tree is the result of a walk over a volume.
type tree struct {
	// bytes is the size of all regular files, and allocated their size on the disk.
	bytes, allocated int64
	// files is the number of names, directories included.
	files int64
	// linked reports whether a regular file has several names.
	linked bool
	// foreign is the first path that another user owns.
	foreign string
	// newest is the latest time at which an inode changed, by the clock of the file system.
	newest time.Time
	// root identifies the directory itself.
	root [2]uint64
	// changed are the paths, relative to the directory, whose inode changed at since or
	// later.
	changed []string
}

// walk returns the tree of a directory.
func walk(directory string) (*tree, error) { return walkSince(directory, time.Time{}, false) }

// walkSince returns the tree of a directory, if list is true with the changes since a time of the
// file system's clock. Names that vanish meanwhile are omitted.
func walkSince(directory string, since time.Time, list bool) (*tree, error) {
	t := &tree{}
	seen := map[uint64]bool{}
	err := filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != directory {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		if relative == lostAndFound {
			return fs.SkipDir
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s has no inode", path)
		}
		t.files++
		changed := time.Unix(stat.Ctim.Unix())
		if changed.After(t.newest) {
			t.newest = changed
		}
		if relative == "." {
			t.root = [2]uint64{uint64(stat.Dev), stat.Ino}
			return nil
		}
		if int(stat.Uid) != os.Geteuid() && t.foreign == "" {
			t.foreign = path
		}
		if info.Mode().IsRegular() {
			if stat.Nlink > 1 {
				t.linked = true
			}
			if stat.Nlink == 1 || !seen[stat.Ino] {
				t.bytes += info.Size()
				t.allocated += stat.Blocks * 512
			}
			if stat.Nlink > 1 {
				seen[stat.Ino] = true
			}
		}
		if list && !changed.Before(since) {
			t.changed = append(t.changed, relative)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the files of the volume: %w", err)
	}
	slices.Sort(t.changed)
	return t, nil
}
