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
	// minFreeBytes is what etcd allocates ahead for its log, twice 64 MB, with
	// some air; with less it dies at the first write.
	minFreeBytes = 160 << 20
	// maxDataDir leaves room for the socket's name in the 108 bytes that
	// Linux has for the path of a unix socket.
	maxDataDir = 108 - len("/"+socketName) - 1

	lockName   = "lock"
	socketName = "etcd.sock"
	etcdName   = "etcd"
)

// dataDir is a directory that this process alone writes to.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if it is not there, and locks it until
// close. Its errors say what is wrong with the directory and what to do.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	if len(path) > maxDataDir {
		return nil, fmt.Errorf("data directory %s: its path has %d characters, at most %d leave room for a unix socket in it: use a shorter path", path, len(path), maxDataDir)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, explain(path, err)
	}
	// Opening the lock for writing is also the proof that the directory can be
	// written to: permission bits say nothing about a read-only mount.
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s: another process uses it: stop that one, or give this one a --data-dir of its own", path)
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

// checkSpace makes sure that so many bytes are free.
func (d *dataDir) checkSpace(needed uint64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.path, &stat); err != nil {
		return fmt.Errorf("data directory %s: asking for its free space: %w", d.path, err)
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free < needed {
		return fmt.Errorf("data directory %s: its volume is full, %d MiB are free and %d MiB are needed: enlarge the volume or free space on it", d.path, free>>20, needed>>20)
	}
	return nil
}

func (d *dataDir) socket() string { return filepath.Join(d.path, socketName) }

// endpoint is where clients on this machine find the etcd in it.
func (d *dataDir) endpoint() string { return "unix://" + d.socket() }

func (d *dataDir) snapshots() string { return filepath.Join(d.path, snapshotsName) }

func (d *dataDir) etcd() string { return filepath.Join(d.path, etcdName) }

// close gives the directory free for another process.
func (d *dataDir) close() error { return d.lock.Close() }

func explain(path string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("data directory %s: it is on a read-only file system: mount a volume there that can be written to", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory %s: user %d must not write to it: change its owner, or set securityContext.fsGroup of the pod", path, os.Getuid())
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("data directory %s: its volume is full: enlarge the volume or free space on it", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("data directory %s: it, or what it lies in, is a file: remove that file or use another --data-dir", path)
	default:
		return fmt.Errorf("data directory %s: %w", path, err)
	}
}
