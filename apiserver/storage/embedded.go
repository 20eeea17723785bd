// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage runs the embedded etcd of the federation API server, and takes and restores its
// snapshots. The etcd listens only on a unix socket in its data directory.
package storage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

const (
	// memberName is the name of the only etcd member. It must not change, because the data directory
	// contains it.
	memberName = "federation"

	// startTimeout is the maximum time that a start of etcd may take.
	startTimeout = 2 * time.Minute

	// backendQuota is the maximum size of the database, in bytes. 10,000 shadow pods with five minutes
	// of history use a tenth of it.
	backendQuota = 2 << 30
	// snapshotCount and catchUpEntries limit the number of log entries in memory. They are below the defaults of etcd
	// because the entries are for other members, and the embedded etcd is the only member.
	snapshotCount  = 2000
	catchUpEntries = 100
	// walFiles is the maximum number of log files on disk, of 64 MB each.
	walFiles = 2
	// defragThresholdMiB is the minimum free space within the database, in MiB, for a defragmentation: by etcd at its
	// start, and by Maintain if at least half of the database is free, too.
	defragThresholdMiB = 64
)

// Embedded is an etcd that runs in this process. Start returns it, and Close stops it.
type Embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	dir    *dataDir
	// quota is the maximum size of the database, in bytes.
	quota int64
	// quiet suppresses warnings and errors that etcd logs. It is true while etcd starts and stops.
	quiet atomic.Bool
}

// Start starts an etcd with its data in dir, and returns when it serves requests. Most errors name dir and end with the
// remedy. Start does not configure compaction, because the API server compacts its etcd itself.
func Start(ctx context.Context, dir string) (*Embedded, error) {
	return start(ctx, dir, backendQuota)
}

func start(ctx context.Context, dir string, quota int64) (started *Embedded, err error) {
	data, err := openDataDir(dir)
	if err != nil {
		return nil, err
	}
	e := &Embedded{dir: data, quota: quota}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()

	e.quiet.Store(true)
	logger := zapLogger(klog.FromContext(ctx).WithName("etcd"), &e.quiet, data.path)
	e.etcd, err = embed.StartEtcd(config(data, quota, logger))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: starting etcd: %w", data.path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-e.etcd.Server.ReadyNotify():
		if e.client, err = newClient(e.Endpoint()); err != nil {
			return nil, err
		}
		e.quiet.Store(false)
		return e, nil
	case err := <-e.etcd.Err():
		return nil, fmt.Errorf("data directory %s: etcd stopped: %w", data.path, err)
	case <-ctx.Done():
		return nil, fmt.Errorf("data directory %s: etcd is not ready: %w", data.path, ctx.Err())
	}
}

// Endpoint returns the endpoint for clients in this process, a unix socket.
func (e *Embedded) Endpoint() string { return e.dir.endpoint() }

// Err returns a channel that receives an error if etcd stops without a call of Close.
func (e *Embedded) Err() <-chan error { return e.etcd.Err() }

// Close stops etcd when all writes are on disk, and unlocks the data directory.
func (e *Embedded) Close() error {
	e.quiet.Store(true)
	var errs []error
	if e.client != nil {
		errs = append(errs, e.client.Close())
	}
	if e.etcd != nil {
		e.etcd.Close()
	}
	return errors.Join(append(errs, e.dir.close())...)
}

func config(dir *dataDir, quota int64, logger *zap.Logger) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = memberName
	cfg.Dir = dir.etcd()
	cfg.InitialCluster = cfg.InitialClusterFromName(memberName)

	socket := url.URL{Scheme: "unix", Path: dir.socket()}
	cfg.ListenClientUrls = []url.URL{socket}
	cfg.AdvertiseClientUrls = []url.URL{socket}
	// The only member needs no listener for other members. Its advertised peer URL keeps the default
	// value, because etcd derives the ID of the cluster from it.
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false
	// etcd does not authenticate clients. Every process that can open the socket has full access.
	cfg.AuthToken = ""

	cfg.QuotaBackendBytes = quota
	cfg.SnapshotCount = snapshotCount
	cfg.SnapshotCatchUpEntries = catchUpEntries
	cfg.MaxWalFiles = walFiles
	cfg.BootstrapDefragThresholdMegabytes = defragThresholdMiB

	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return cfg
}
