// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/network"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// endTimeout bounds how long processes and control groups may take to go.
const endTimeout = time.Minute

// Down ends the instance and removes everything that belongs to it. An instance
// that is not up is no error, one with its state elsewhere than in dir is;
// with an empty dir it may be anywhere.
func Down(ctx context.Context, name, dir string, steps *Steps) error {
	unlock, err := Lock(ctx, name, steps)
	if err != nil {
		return err
	}
	defer unlock()
	unlockMachine, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer unlockMachine()
	i, err := state.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := forget(ctx, &state.Instance{Name: name}); err != nil {
			return err
		}
		steps.Done(name, "is not up, nothing to do")
		return nil
	}
	if err != nil {
		return err
	}
	lost, err := abandoned(i, dir)
	if err != nil {
		return err
	}
	if dir != "" && !lost {
		if err := owned(i, dir); err != nil {
			return err
		}
	}
	if err := remove(ctx, i); err != nil {
		return err
	}
	steps.Done(name, "is gone: processes, namespaces, links, control groups and files")
	return nil
}

// remove undoes what the record names, the record itself last. The caller holds
// the locks.
func remove(ctx context.Context, i *state.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	var ends []func(context.Context) error
	end := func(what string, p state.Process) {
		ends = append(ends, func(ctx context.Context) error {
			if err := sandbox.Kill(ctx, p, unix.SIGKILL); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
	for _, c := range i.Clusters {
		for _, n := range c.Nodes {
			end(n.Name, n.Holder)
		}
	}
	end("router", i.Router)
	if err := parallel(ctx, ends...); err != nil {
		return err
	}
	if err := network.RemoveHostLink(i); err != nil {
		return err
	}
	if err := sandbox.RemoveCgroups(ctx, cluster.CgroupRoot(i.Name)); err != nil {
		return err
	}
	for _, c := range i.Clusters {
		if err := os.Remove(i.Kubeconfig(c.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.RemoveAll(i.Path()); err != nil {
		return err
	}
	return forget(ctx, i)
}

// forget removes the record and what only the last instance leaves.
func forget(ctx context.Context, i *state.Instance) error {
	if err := i.Forget(); err != nil {
		return err
	}
	names, err := state.Instances()
	if err != nil || len(names) > 0 {
		return err
	}
	if err := sandbox.RemoveCgroups(ctx, cluster.CgroupRoot("")); err != nil {
		return err
	}
	return restoreLimits()
}
