// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"

	"liqo.io/federation/apiserver/storage"
)

// Run serves the federation API until ctx is done or its storage dies. The
// options have been validated. Each error says in one line what to do.
func (o *Options) Run(ctx context.Context) (err error) {
	in, err := o.connect(ctx)
	if err != nil {
		return err
	}
	if !o.embedsEtcd() {
		return o.serve(ctx, in)
	}

	etcd, err := storage.Start(ctx, o.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	o.Etcd.StorageConfig.Transport.ServerList = []string{etcd.Endpoint()}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-etcd.Err():
			cancel(fmt.Errorf("the embedded etcd stopped: %w", err))
		case <-ctx.Done():
		}
	}()
	return errors.Join(o.serve(ctx, in), died(ctx))
}

func (o *Options) serve(ctx context.Context, in *cluster) error {
	config, err := o.config(in)
	if err != nil {
		return err
	}
	server, err := config.Complete().New()
	if err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// died returns why ctx ended, unless somebody asked for it.
func died(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return nil
}
