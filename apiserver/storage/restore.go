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

	// revisionBump is how far behind the snapshot the revision begins again:
	// further than any server got that ran since the snapshot was taken, so
	// that no client meets an old resourceVersion with another content.
	revisionBump = 1_000_000_000
)

// Newest stands for the newest of the snapshots in the data directory.
const Newest = "newest"

// RestoreOptions say what to restore, and where.
type RestoreOptions struct {
	// Snapshot is the path of a snapshot, or Newest.
	Snapshot string
	// DataDir is the data directory to fill.
	DataDir string
	// SetAside renames the data that is in it, instead of refusing.
	SetAside bool
}

// Restored is what came of a restore.
type Restored struct {
	// Keys is how many there are, and Revision the one that the snapshot had.
	Keys     int
	Revision int64
	// Aside is where the data is that was there before, if there was any.
	Aside string
}

// Restore fills a data directory from a snapshot. The revision goes up by so
// much that clients see a gap and list again. It either succeeds or leaves the
// data as it was. An error says in one line what to do.
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
			return nil, fmt.Errorf("data directory %s: it has no snapshots: name a file", d.path)
		}
		o.Snapshot = paths[len(paths)-1]
	}
	if err := verify(o.Snapshot); err != nil {
		return nil, fmt.Errorf("%w: take another one", err)
	}
	_, err := os.Stat(d.etcd())
	occupied := err == nil
	if occupied && !o.SetAside {
		return nil, fmt.Errorf("data directory %s: it holds data, and nothing is overwritten: restore into an empty volume, or add --set-aside", d.path)
	}
	manager := snapshot.NewV3(zapLogger(klog.FromContext(ctx).WithName("etcd"), alwaysQuiet(), d.path))
	status, err := manager.Status(o.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: reading it: %w: take another one", o.Snapshot, err)
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
			return nil, fmt.Errorf("data directory %s: setting aside what is there: %w", d.path, err)
		}
	}
	if err := os.Rename(restoring, d.etcd()); err != nil {
		return nil, fmt.Errorf("data directory %s: putting the restored data in place: %w", d.path, err)
	}
	return result, syncDir(d.path)
}
