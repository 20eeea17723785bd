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
	// defragmentInterval is the time between two checks whether to defragment the database. A defragmentation blocks
	// all requests, so it takes place only if at least half of the database and at least defragThresholdMiB are free,
	// or if etcd refuses writes because the database is full.
	defragmentInterval = 10 * time.Minute
	// retryInterval is the time after which a failed snapshot is retried.
	retryInterval = 10 * time.Minute
	// firstSnapshot is the minimum time from the start to the first snapshot, which would slow down the
	// start.
	firstSnapshot = time.Minute
)

// Snapshots configures the snapshots that Maintain takes.
type Snapshots struct {
	// Interval is the time between two snapshots. 0 means that no snapshots are taken.
	Interval time.Duration
	// Retain is the number of snapshots to keep. Older snapshots are deleted.
	Retain int
}

// Maintain periodically takes snapshots and defragments the database, until ctx is done. It logs errors
// and retries.
func (e *Embedded) Maintain(ctx context.Context, s Snapshots) {
	logger := klog.FromContext(ctx).WithName("maintenance")
	defragment := time.NewTicker(defragmentInterval)
	defer defragment.Stop()
	var due <-chan time.Time
	if s.Interval > 0 {
		due = time.After(e.untilSnapshot(s.Interval, time.Now()))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-defragment.C:
			if err := e.makeRoom(2 * minFreeBytes); err != nil {
				logger.Error(err, "Unable to free space on the volume, will retry", "after", defragmentInterval)
			}
			freed, err := e.defragment(ctx)
			switch {
			case err != nil:
				logger.Error(err, "Unable to defragment the database, will retry", "after", defragmentInterval)
			case freed > 0:
				logger.Info("Defragmented the database", "freedBytes", freed)
			}
		case now := <-due:
			next := s.Interval
			if path, err := e.snapshotAndPrune(ctx, s.Retain, now); err != nil {
				next = min(next, retryInterval)
				logger.Error(err, "Unable to take a snapshot, will retry", "after", next)
			} else {
				logger.Info("Took a snapshot", "path", path)
			}
			due = time.After(next)
		}
	}
}

// untilSnapshot returns the time until the next snapshot is due, by the age of the newest snapshot. It is at least
// firstSnapshot, unless interval is shorter, and at most interval.
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
	// Unfinished snapshots are deleted first, since they can be the reason for a full volume.
	if err := e.prune(retain); err != nil {
		return "", err
	}
	if path, err = e.snapshot(ctx, now); err != nil {
		return "", err
	}
	return path, e.prune(retain)
}

// makeRoom deletes unfinished snapshots, and all complete snapshots except the newest, if the volume has fewer than
// needed bytes free.
func (e *Embedded) makeRoom(needed uint64) error {
	if e.dir.checkSpace(needed) == nil {
		return nil
	}
	return e.prune(1)
}

// defragment defragments the database if at least half of it and at least defragThresholdMiB are free, and returns the
// number of bytes by which the file became smaller. If etcd refuses writes because the database is full, it compacts
// the history, defragments the database in any case, and then disarms the alarm.
func (e *Embedded) defragment(ctx context.Context) (freed int64, err error) {
	before, err := e.client.Status(ctx, e.Endpoint())
	if err != nil {
		return 0, fmt.Errorf("reading the size of the database: %w", err)
	}
	alarms, err := e.full(ctx)
	if err != nil {
		return 0, err
	}
	free := before.DbSize - before.DbSizeInUse
	if len(alarms) == 0 && (free < defragThresholdMiB<<20 || free < before.DbSizeInUse) {
		return 0, nil
	}
	defer func() { countDefragmentation(err) }()
	if len(alarms) > 0 {
		// The API server cannot compact a full database: its compaction begins with a write, which etcd
		// refuses.
		_, err := e.client.Compact(ctx, before.Header.Revision, clientv3.WithCompactPhysical())
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return 0, fmt.Errorf("compacting the full database: %w", err)
		}
	}
	if _, err := e.client.Defragment(ctx, e.Endpoint()); err != nil {
		return 0, fmt.Errorf("defragmenting the database: %w", err)
	}
	after, err := e.client.Status(ctx, e.Endpoint())
	if err != nil {
		return 0, fmt.Errorf("reading the size of the database: %w", err)
	}
	if err := e.reopen(ctx, alarms, after.DbSize); err != nil {
		return 0, err
	}
	return before.DbSize - after.DbSize, nil
}

// full returns the NOSPACE alarms of etcd. While one exists, etcd refuses writes because the database
// is or was full. Alarms persist, also after a restart, until they are disarmed.
func (e *Embedded) full(ctx context.Context) ([]*etcdserverpb.AlarmMember, error) {
	response, err := e.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the alarms of etcd: %w", err)
	}
	return slices.DeleteFunc(response.Alarms, func(a *etcdserverpb.AlarmMember) bool {
		return a.Alarm != etcdserverpb.AlarmType_NOSPACE
	}), nil
}

// reopen disarms alarms, so that etcd accepts writes again. size is the size of the database in bytes. If there are
// alarms and size is larger than 90 % of the quota, it disarms none and returns an error.
func (e *Embedded) reopen(ctx context.Context, alarms []*etcdserverpb.AlarmMember, size int64) error {
	if most := e.quota / 10 * 9; len(alarms) > 0 && size > most {
		return fmt.Errorf("the database is full: it has %d bytes, and must have at most %d to accept writes: "+
			"delete objects; the space is freed within %s", size, most, defragmentInterval)
	}
	for _, alarm := range alarms {
		if _, err := e.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return fmt.Errorf("disarming the alarm of etcd: %w", err)
		}
	}
	return nil
}
