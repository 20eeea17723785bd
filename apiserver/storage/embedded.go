// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage runs the embedded etcd of the federation API server. It serves only this process, on a
// unix socket in its data directory, and does not listen on a network.
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
	// memberName must not change: it is stored in the data directory.
	memberName = "federation"

	// startTimeout bounds the start of etcd.
	startTimeout = 2 * time.Minute

	// backendQuota bounds the database. 10,000 shadow pods with five minutes of history use a
	// tenth of it.
	backendQuota = 2 << 30
	// snapshotCount and catchUpEntries bound the log in memory for followers, of which there are
	// none.
	snapshotCount  = 2000
	catchUpEntries = 100
	// walFiles bounds the log on disk, at 64 MB a file.
	walFiles = 2
	// defragThresholdMiB is the free space of the database, in MiB, from which etcd defragments
	// it at its start.
	defragThresholdMiB = 64
)

// Embedded is an etcd inside this process.
type Embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	dir    *dataDir
	// quota is the largest size of the database, in bytes.
	quota int64
	// quiet suppresses the log of etcd while it starts and stops.
	quiet atomic.Bool
}

// Start starts an etcd with its data in dir, and returns once it serves. Errors have one line, with the
// remedy. The API server compacts the history, as of any etcd.
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

// Endpoint returns the endpoint for clients in this process.
func (e *Embedded) Endpoint() string { return e.dir.endpoint() }

// Err returns a channel with the error that stops etcd.
func (e *Embedded) Err() <-chan error { return e.etcd.Err() }

// Close stops etcd after all writes are on disk, and unlocks its directory.
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
	// A single member does not listen for peers. Its advertised peer address must stay the default,
	// which identifies the cluster.
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false
	// There is no authentication: access to the socket permits everything.
	cfg.AuthToken = ""

	cfg.QuotaBackendBytes = quota
	cfg.SnapshotCount = snapshotCount
	cfg.SnapshotCatchUpEntries = catchUpEntries
	cfg.MaxWalFiles = walFiles
	cfg.BootstrapDefragThresholdMegabytes = defragThresholdMiB

	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return cfg
}
