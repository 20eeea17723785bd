// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// lostAndFound is a directory of the file system itself, which is not copied.
const lostAndFound = "lost+found"

// tree is the result of a walk over a directory, without its lost+found.
type tree struct {
	// bytes is the size of all regular files, and allocated the space that they use on the disk, in bytes.
	bytes, allocated int64
	// files is the number of paths, including directories. A file with several hard links counts once per path.
	files int64
	// linked is true if a regular file has several hard links.
	linked bool
	// foreign is the first path below that directory whose owner is not the user of this process, in lexical order; empty
	// if there is none.
	foreign string
	// newest is the time of the latest change of an inode, by the clock of the file system.
	newest time.Time
	// root is the device and the inode of the directory that was walked.
	root [2]uint64
	// changed has the paths, relative to the directory that was walked, whose inodes changed at the time since or
	// later, or that are in a directory that was renamed.
	changed []string
}

// directories has a hash of the path of each directory by its device and inode, as the first walk with this map found
// it; 0 if a later walk found another path.
type directories map[[2]uint64]uint64

// pathSeed is the seed of the hashes in directories.
var pathSeed = maphash.MakeSeed()

// renamed records the path of a directory, and reports whether any walk found it at another path.
func (d directories) renamed(id [2]uint64, path string) bool {
	hash := maphash.String(pathSeed, path)
	if known, ok := d[id]; ok && known != hash {
		d[id] = 0
		return true
	}
	d[id] = hash
	return false
}

// walk returns the tree of a directory. The field changed of the tree is empty.
func walk(directory string) (*tree, error) {
	return walkSince(directory, time.Time{}, false, false, directories{})
}

// walkSince returns the tree of a directory. If list is true, the tree lists the paths that changed at since, a time by
// the clock of the file system, or later. If fresh is true, the client of a network file system requests the attributes
// of each path from its server, and caches them for the rsync that follows; other clients may have changed the path.
// Names that are deleted during the walk are omitted. known has the directories of earlier walks.
func walkSince(directory string, since time.Time, list, fresh bool, known directories) (*tree, error) {
	t := &tree{}
	renamed := map[string]bool{}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if fresh {
		flags |= unix.AT_STATX_FORCE_SYNC
	}
	seen := map[uint64]bool{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
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
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		// The names in a directory are read after its attributes, and not from the cache if these differ.
		var stat unix.Statx_t
		err = unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_BASIC_STATS, &stat)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "statx", Path: path, Err: err}
		}
		t.files++
		changed := time.Unix(stat.Ctime.Sec, int64(stat.Ctime.Nsec))
		if changed.After(t.newest) {
			t.newest = changed
		}
		id := [2]uint64{unix.Mkdev(stat.Dev_major, stat.Dev_minor), stat.Ino}
		if relative == "." {
			t.root = id
			return nil
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR && known.renamed(id, relative) {
			renamed[relative] = true
		}
		if int(stat.Uid) != os.Geteuid() && t.foreign == "" {
			t.foreign = path
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFREG {
			if stat.Nlink > 1 {
				t.linked = true
			}
			if stat.Nlink == 1 || !seen[stat.Ino] {
				t.bytes += int64(stat.Size)
				t.allocated += int64(stat.Blocks) * 512
			}
			if stat.Nlink > 1 {
				seen[stat.Ino] = true
			}
		}
		// Files do not change with the name of their directory.
		if list && (!changed.Before(since) || renamed[filepath.Dir(relative)]) {
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
