// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

const (
	restoringName = "etcd.restoring"
	asideName     = "etcd.aside-"

	// revisionBump is added to the revision of a restored snapshot. It must be larger than the number
	// of writes after the snapshot was taken; otherwise one resourceVersion would stand for two
	// different states, and clients would not notice the restore.
	revisionBump = 1_000_000_000
)

// Newest is the value of RestoreOptions.Snapshot that selects the newest snapshot in the data
// directory.
const Newest = "newest"

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// Snapshot is the path of a snapshot, or Newest.
	Snapshot string
	// DataDir is the data directory to restore into.
	DataDir string
	// If SetAside is true, existing data in the data directory is renamed to etcd.aside-<time>. If it is false and the
	// directory contains data, Restore fails.
	SetAside bool
}

// Restored is the result of Restore.
type Restored struct {
	// Keys is the number of keys in the snapshot, and Revision its etcd revision.
	Keys     int
	Revision int64
	// Aside is the path to which existing data was renamed. It is empty if the data directory was
	// empty.
	Aside string
}

// Restore restores a snapshot into a data directory. It increases the revision by revisionBump, so that clients list
// all objects again. If it fails, existing data stays in the data directory. Most errors name the snapshot or the
// directory, and end with the remedy.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	dir, err := openDataDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	restored, err := dir.restore(ctx, o)
	return restored, errors.Join(err, dir.close())
}

func (d *dataDir) restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	if o.Snapshot == Newest {
		paths, err := d.allSnapshots()
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("data directory %s: it has no snapshots: set --snapshot to a file", d.path)
		}
		o.Snapshot = paths[len(paths)-1]
	}
	if err := verify(o.Snapshot); err != nil {
		return nil, fmt.Errorf("%w: use another snapshot", err)
	}
	_, err := os.Stat(d.etcd())
	occupied := err == nil
	if occupied && !o.SetAside {
		return nil, fmt.Errorf("data directory %s: it contains data, and nothing is overwritten: restore into an empty "+
			"volume, or set --set-aside", d.path)
	}
	manager := snapshot.NewV3(zapLogger(klog.FromContext(ctx).WithName("etcd"), alwaysQuiet(), d.path))
	status, err := manager.Status(o.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: reading it: %w: use another snapshot", o.Snapshot, err)
	}
	restoring := filepath.Join(d.path, restoringName)
	if err := os.RemoveAll(restoring); err != nil {
		return nil, explain(d.path, err)
	}
	member := config(d, backendQuota, zap.NewNop())
	err = manager.Restore(snapshot.RestoreConfig{
		SnapshotPath:        o.Snapshot,
		Name:                member.Name,
		OutputDataDir:       restoring,
		PeerURLs:            []string{member.AdvertisePeerUrls[0].String()},
		InitialCluster:      member.InitialCluster,
		InitialClusterToken: member.InitialClusterToken,
		RevisionBump:        revisionBump,
		MarkCompacted:       true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot %s: restoring it: %w", o.Snapshot, err), os.RemoveAll(restoring))
	}
	result := &Restored{Keys: status.TotalKey, Revision: status.Revision}
	if occupied {
		result.Aside = filepath.Join(d.path, asideName+time.Now().UTC().Format(snapshotFormat))
		if err := os.Rename(d.etcd(), result.Aside); err != nil {
			return nil, fmt.Errorf("data directory %s: renaming the existing data: %w", d.path, err)
		}
	}
	if err := os.Rename(restoring, d.etcd()); err != nil {
		err = fmt.Errorf("data directory %s: renaming the restored data: %w", d.path, err)
		if occupied {
			err = errors.Join(err, os.Rename(result.Aside, d.etcd()))
		}
		return nil, err
	}
	return result, syncDir(d.path)
}
