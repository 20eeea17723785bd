// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage runs the etcd that is embedded in the federation API
// server. It serves this process alone, on a unix socket inside its data
// directory; nothing listens on a network.
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
	// memberName never changes: it is recorded in the data directory.
	memberName = "federation"

	// startTimeout bounds how long etcd may take to read its data.
	startTimeout = 2 * time.Minute

	// backendQuota bounds the database. At 10,000 shadow pods and five minutes
	// of history it is a tenth full.
	backendQuota = 2 << 30
	// snapshotCount and catchUpEntries bound the log that etcd keeps in memory
	// for followers, of which there are none.
	snapshotCount  = 2000
	catchUpEntries = 100
	// walFiles bounds the log on disk, at 64 MB a file.
	walFiles = 2
	// defragThresholdMiB is how much a start must be able to free for etcd to
	// rewrite its database first.
	defragThresholdMiB = 64
)

// Embedded is an etcd inside this process.
type Embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	dir    *dataDir
	// quota is how large the database may grow, in bytes.
	quota int64
	// quiet is true while etcd starts and stops.
	quiet atomic.Bool
}

// Start runs an etcd with its data in dir and returns when it serves. An
// error says in one line what is wrong with the directory and what to do.
// History is compacted by the API server, as that of any other etcd.
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
	e.etcd, err = embed.StartEtcd(config(data, quota, zapLogger(klog.FromContext(ctx).WithName("etcd"), &e.quiet, data.path)))
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

// Endpoint is where clients in this process find etcd.
func (e *Embedded) Endpoint() string { return e.dir.endpoint() }

// Err reports why etcd stopped by itself.
func (e *Embedded) Err() <-chan error { return e.etcd.Err() }

// Close stops etcd when every write is on disk, and unlocks its directory.
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
	// A single member has no peers to listen to. Its advertised peer address
	// stays the default, since the cluster is known by it.
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false
	// Who can open the socket may do everything: there are no users in it.
	cfg.AuthToken = ""

	cfg.QuotaBackendBytes = quota
	cfg.SnapshotCount = snapshotCount
	cfg.SnapshotCatchUpEntries = catchUpEntries
	cfg.MaxWalFiles = walFiles
	cfg.BootstrapDefragThresholdMegabytes = defragThresholdMiB

	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return cfg
}
