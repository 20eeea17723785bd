// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

const (
	// defragmentInterval is how often the database is looked at. It is
	// rewritten when more than half of it, and of that more than a start would
	// free, is empty: while that goes on nobody is answered.
	defragmentInterval = 10 * time.Minute
	// retryInterval is when a snapshot that failed is tried again.
	retryInterval = 10 * time.Minute
	// firstSnapshot keeps a start from doing two things at once.
	firstSnapshot = time.Minute
)

// Maintenance says how the embedded etcd looks after itself.
type Maintenance struct {
	// SnapshotInterval is the time between two snapshots; zero means none.
	SnapshotInterval time.Duration
	// SnapshotRetain is how many snapshots are kept.
	SnapshotRetain int
}

// Maintain takes snapshots and gives free space back until ctx is done.
func (e *Embedded) Maintain(ctx context.Context, m Maintenance) {
	logger := klog.FromContext(ctx).WithName("maintenance")
	defragment := time.NewTicker(defragmentInterval)
	defer defragment.Stop()
	var due <-chan time.Time
	if m.SnapshotInterval > 0 {
		due = time.After(e.untilSnapshot(m.SnapshotInterval, time.Now()))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-defragment.C:
			if err := e.makeRoom(2 * minFreeBytes); err != nil {
				logger.Error(err, "Cannot make room on the volume, trying again later", "after", defragmentInterval)
			}
			freed, err := e.defragment(ctx)
			switch {
			case err != nil:
				logger.Error(err, "Cannot give free space of the database back, trying again later", "after", defragmentInterval)
			case freed > 0:
				logger.Info("Gave free space of the database back", "bytes", freed)
			}
		case now := <-due:
			next := m.SnapshotInterval
			if path, err := e.snapshotAndPrune(ctx, m.SnapshotRetain, now); err != nil {
				next = min(next, retryInterval)
				logger.Error(err, "Cannot take a snapshot, trying again later", "after", next)
			} else {
				logger.Info("Took a snapshot", "path", path)
			}
			due = time.After(next)
		}
	}
}

// untilSnapshot is how long the newest snapshot is good for.
func (e *Embedded) untilSnapshot(interval time.Duration, now time.Time) time.Duration {
	paths, err := e.dir.allSnapshots()
	if err != nil || len(paths) == 0 {
		return min(firstSnapshot, interval)
	}
	newest, err := os.Stat(paths[len(paths)-1])
	if err != nil {
		return min(firstSnapshot, interval)
	}
	return min(max(newest.ModTime().Add(interval).Sub(now), min(firstSnapshot, interval)), interval)
}

func (e *Embedded) snapshotAndPrune(ctx context.Context, retain int, now time.Time) (path string, err error) {
	defer func() { countSnapshot(path, now, err) }()
	// What is left unfinished may be why the volume is full.
	if err := e.prune(retain); err != nil {
		return "", err
	}
	if path, err = e.snapshot(ctx, now); err != nil {
		return "", err
	}
	return path, e.prune(retain)
}

// makeRoom keeps no snapshot but the newest when less than so much of the
// volume is free: the store itself comes first.
func (e *Embedded) makeRoom(needed uint64) error {
	if e.dir.checkSpace(needed) == nil {
		return nil
	}
	return e.prune(1)
}

// defragment rewrites the database if that frees enough, or, without its
// history, if etcd takes no writes any more because the database has no room
// to grow. It returns how much smaller the database is.
func (e *Embedded) defragment(ctx context.Context) (freed int64, err error) {
	before, err := e.client.Status(ctx, e.Endpoint())
	if err != nil {
		return 0, fmt.Errorf("asking etcd for its size: %w", err)
	}
	alarms, err := e.full(ctx)
	if err != nil {
		return 0, err
	}
	if empty := before.DbSize - before.DbSizeInUse; len(alarms) == 0 && (empty < defragThresholdMiB<<20 || empty < before.DbSizeInUse) {
		return 0, nil
	}
	defer func() { countDefragmentation(err) }()
	if len(alarms) > 0 {
		// The API server notes in the store how far it compacts, which is a
		// write, and so compacts nothing while writes are refused.
		if _, err := e.client.Compact(ctx, before.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return 0, fmt.Errorf("forgetting what the full database held before: %w", err)
		}
	}
	if _, err := e.client.Defragment(ctx, e.Endpoint()); err != nil {
		return 0, fmt.Errorf("rewriting the database: %w", err)
	}
	after, err := e.client.Status(ctx, e.Endpoint())
	if err != nil {
		return 0, fmt.Errorf("asking etcd for its size: %w", err)
	}
	if err := e.reopen(ctx, alarms, after.DbSize); err != nil {
		return 0, err
	}
	return before.DbSize - after.DbSize, nil
}

// full returns the alarms by which etcd refuses writes because the database is
// as large as it may be. It goes on to do so when there is room again, also
// after a start, until it is told.
func (e *Embedded) full(ctx context.Context) ([]*etcdserverpb.AlarmMember, error) {
	response, err := e.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking etcd for its alarms: %w", err)
	}
	return slices.DeleteFunc(response.Alarms, func(a *etcdserverpb.AlarmMember) bool { return a.Alarm != etcdserverpb.AlarmType_NOSPACE }), nil
}

// reopen lets etcd take writes again if its database has become small enough.
func (e *Embedded) reopen(ctx context.Context, alarms []*etcdserverpb.AlarmMember, size int64) error {
	if most := e.quota / 10 * 9; len(alarms) > 0 && size > most {
		return fmt.Errorf("the database is full: it has %d bytes, and etcd takes writes again below %d: delete objects, they are gone from it %s later at the latest", size, most, defragmentInterval)
	}
	for _, alarm := range alarms {
		if _, err := e.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return fmt.Errorf("telling etcd that there is room again: %w", err)
		}
	}
	return nil
}
