// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// minFreeBytes is the free space, in bytes, that the start of etcd requires: etcd preallocates two files of 64 MB
	// for its log, and stops at its first write if it cannot.
	minFreeBytes = 160 << 20
	// maxDataDir is the maximum length of the path of the directory. Linux limits the path of the unix
	// socket in it to 108 bytes with a terminating zero.
	maxDataDir = 108 - len("/"+socketName) - 1

	lockName   = "lock"
	socketName = "etcd.sock"
	etcdName   = "etcd"
)

// dataDir is the data directory, which is locked so that only this process writes to it.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates the directory if it does not exist, and locks it until close. It fails if the path is longer than
// maxDataDir, if another process has locked the directory, if the directory cannot be written, or if its volume has
// fewer than minFreeBytes free. Errors name the directory, and most of them the remedy.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	if len(path) > maxDataDir {
		return nil, fmt.Errorf("data directory %s: its path has %d characters, and must have at most %d: "+
			"use a shorter path", path, len(path), maxDataDir)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, explain(path, err)
	}
	// The lock is opened for writing, which also verifies that the directory is writable. Permission
	// bits alone would not reveal a read-only mount.
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s: another process uses it: stop that process, or set another --data-dir",
				path)
		}
		return nil, fmt.Errorf("data directory %s: locking it: %w: use a local volume that supports file locks", path, err)
	}
	dir := &dataDir{path: path, lock: lock}
	if err := dir.checkSpace(minFreeBytes); err != nil {
		lock.Close()
		return nil, err
	}
	return dir, nil
}

// checkSpace returns an error if the volume of the directory has fewer than needed bytes free.
func (d *dataDir) checkSpace(needed uint64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.path, &stat); err != nil {
		return fmt.Errorf("data directory %s: reading its free space: %w", d.path, err)
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free < needed {
		return fmt.Errorf("data directory %s: its volume is full, %d MiB are free and %d MiB are needed: "+
			"enlarge the volume or free space on it", d.path, free>>20, needed>>20)
	}
	return nil
}

func (d *dataDir) socket() string { return filepath.Join(d.path, socketName) }

// endpoint returns the client endpoint of the etcd that runs in the directory, a unix socket.
func (d *dataDir) endpoint() string { return "unix://" + d.socket() }

func (d *dataDir) snapshots() string { return filepath.Join(d.path, snapshotsName) }

func (d *dataDir) etcd() string { return filepath.Join(d.path, etcdName) }

// close unlocks the directory. Its data is kept.
func (d *dataDir) close() error { return d.lock.Close() }

func explain(path string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("data directory %s: it is on a read-only file system: mount a writable volume", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory %s: user %d is not permitted to write to it: change its owner, or set "+
			"securityContext.fsGroup of the pod", path, os.Getuid())
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("data directory %s: its volume is full: enlarge the volume or free space on it", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("data directory %s: it, or a parent of it, is a file: remove that file or use another --data-dir",
			path)
	default:
		return fmt.Errorf("data directory %s: %w", path, err)
	}
}
