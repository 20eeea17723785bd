// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/apiserver/storage"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/registry/federation/placementreview"
)

var errEtcdStopped = errors.New("the embedded etcd stopped")

// Run serves the federation API until ctx is done or the embedded etcd stops. Validate must have
// returned no errors. Errors end with the remedy if one is known.
func (o *Options) Run(ctx context.Context) (err error) {
	placementreview.RegisterMetrics(legacyregistry.MustRegister)
	trust.RegisterMetrics(legacyregistry.MustRegister)
	in, err := o.connect(ctx)
	if err != nil {
		return err
	}
	// The port is opened first, so that its error is reported before errors of the storage.
	if err := o.listen(); err != nil {
		return err
	}
	if !o.embedsEtcd() {
		if err := storage.Reach(ctx, o.Etcd.StorageConfig.Transport); err != nil {
			return fmt.Errorf("--etcd-servers: cannot reach etcd: %w: check that it runs, and --etcd-cafile", oneLine(err))
		}
		return o.serve(ctx, in, false)
	}

	etcd, err := storage.Start(ctx, o.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	o.Etcd.StorageConfig.Transport.ServerList = []string{etcd.Endpoint()}

	var maintenance sync.WaitGroup
	defer maintenance.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-etcd.Err():
			cancel(fmt.Errorf("%w: %w", errEtcdStopped, err))
		case <-ctx.Done():
		}
	}()
	storage.RegisterMetrics(legacyregistry.MustRegister)
	maintenance.Go(func() { etcd.Maintain(ctx, o.Snapshots) })
	return errors.Join(o.serve(ctx, in, true), died(ctx))
}

// listen opens the port. It fails if the port is in use. The server accepts connections later, in
// serve.
func (o *Options) listen() (err error) {
	address := net.JoinHostPort(o.Serving.BindAddress.String(), strconv.Itoa(o.Serving.BindPort))
	o.Serving.Listener, _, err = genericoptions.CreateListener("", address, net.ListenConfig{})
	if err != nil {
		return fmt.Errorf("--secure-port: %w: stop the process that listens on it, or use another port", err)
	}
	return nil
}

// serve runs the server until ctx is done. alone means that no other API server uses the same etcd.
func (o *Options) serve(ctx context.Context, in *cluster, alone bool) error {
	if err := o.checkEmpty(ctx, in); err != nil {
		return err
	}
	config, err := o.config(in, alone)
	if err != nil {
		return err
	}
	server, err := config.Complete().New()
	if err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// died returns the error of the embedded etcd if this error canceled ctx, and nil otherwise.
func died(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errEtcdStopped) {
		return cause
	}
	return nil
}
