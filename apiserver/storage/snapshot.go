// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
)

const (
	// dialTimeout is the timeout of a connection to the embedded etcd.
	dialTimeout = 5 * time.Second

	snapshotsName   = "snapshots"
	snapshotFormat  = "20060102T150405.000Z"
	snapshotSuffix  = ".db"
	unfinishedMarks = ".new"
)

// errDamaged is the error for a snapshot that was truncated or changed.
var errDamaged = errors.New("it is damaged: its checksum is wrong or missing")

// WriteSnapshot requests a snapshot from the API server that runs with data directory dir, and writes
// it to out. The snapshot is an etcd database followed by its checksum. It fails if no server runs, or
// if the checksum is wrong.
func WriteSnapshot(ctx context.Context, dir string, out io.Writer) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", dir, err)
	}
	data := dataDir{path: path}
	if _, err := os.Stat(data.socket()); err != nil {
		return fmt.Errorf("data directory %s: no server runs in it: %w: run the command in the pod of the API server", path,
			err)
	}
	client, err := newClient(data.endpoint())
	if err != nil {
		return err
	}
	defer client.Close()
	response, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return fmt.Errorf("data directory %s: requesting a snapshot: %w", path, err)
	}
	defer response.Snapshot.Close()
	hash := newTrailer()
	if _, err := io.Copy(io.MultiWriter(out, hash), response.Snapshot); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	if !hash.valid() {
		return fmt.Errorf("the snapshot of %s: %w", path, errDamaged)
	}
	return nil
}

// snapshot writes a snapshot to the data directory, verifies its checksum, and returns its path when it
// is on disk. It fails if the volume would have too little free space for etcd afterwards.
func (e *Embedded) snapshot(ctx context.Context, now time.Time) (path string, err error) {
	if err := os.MkdirAll(e.dir.snapshots(), 0o700); err != nil {
		return "", explain(e.dir.snapshots(), err)
	}
	status, err := e.client.Status(ctx, e.Endpoint())
	if err != nil {
		return "", fmt.Errorf("reading the size of the database: %w", err)
	}
	// After the snapshot is written, etcd must still have minFreeBytes.
	if err := e.dir.checkSpace(uint64(status.DbSize) + minFreeBytes); err != nil {
		return "", err
	}
	path = filepath.Join(e.dir.snapshots(), now.UTC().Format(snapshotFormat)+snapshotSuffix)
	unfinished := path + unfinishedMarks
	defer func() { err = errors.Join(err, removeIfThere(unfinished)) }()
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), clientConfig(e.Endpoint()), unfinished); err != nil {
		return "", fmt.Errorf("saving a snapshot: %w", err)
	}
	if err := verify(unfinished); err != nil {
		return "", err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return "", err
	}
	return path, syncDir(e.dir.snapshots())
}

// allSnapshots returns the paths of the complete snapshots in the data directory, the oldest first.
func (d *dataDir) allSnapshots() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(d.snapshots(), "*"+snapshotSuffix))
	slices.Sort(paths)
	return paths, err
}

// prune deletes unfinished snapshots, and the oldest complete snapshots until retain of them are left.
func (e *Embedded) prune(retain int) error {
	paths, err := e.dir.allSnapshots()
	if err != nil {
		return err
	}
	unfinished, err := filepath.Glob(filepath.Join(e.dir.snapshots(), "*"+unfinishedMarks+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range append(unfinished, paths[:max(0, len(paths)-retain)]...) {
		errs = append(errs, removeIfThere(path))
	}
	return errors.Join(errs...)
}

// verify returns errDamaged if the checksum at the end of a snapshot is wrong or missing.
func verify(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer file.Close()
	hash := newTrailer()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("snapshot %s: %w", path, err)
	}
	if !hash.valid() {
		return fmt.Errorf("snapshot %s: %w", path, errDamaged)
	}
	return nil
}

// trailer verifies a snapshot that is written to it: its last bytes must be the checksum of all bytes
// before them.
type trailer struct {
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	last []byte
}

func newTrailer() *trailer { return &trailer{hash: sha256.New()} }

// Write implements io.Writer. It never fails.
func (t *trailer) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if behind := len(t.last) - sha256.Size; behind > 0 {
		t.hash.Write(t.last[:behind])
		t.last = append(t.last[:0], t.last[behind:]...)
	}
	return len(p), nil
}

func (t *trailer) valid() bool { return bytes.Equal(t.hash.Sum(nil), t.last) }

func newClient(endpoint string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientConfig(endpoint))
	if err != nil {
		return nil, fmt.Errorf("creating a client of etcd: %w", err)
	}
	return client, nil
}

func clientConfig(endpoint string) clientv3.Config {
	return clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: dialTimeout, Logger: zap.NewNop()}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir writes the entries of a directory to disk, so that renames in it survive a crash of the
// machine.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
