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

// endTimeout bounds the time in which all processes and control groups must end.
const endTimeout = time.Minute

// Down kills the processes of an instance and deletes everything that belongs to it. It succeeds if the instance does
// not exist. An empty dir permits any state directory. Otherwise Down fails if dir is not the state directory of the
// instance and a process of the instance runs.
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
		steps.Done(name, "does not exist")
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
	steps.Done(name, "deleted: processes, namespaces, links, control groups and files")
	return nil
}

// remove deletes everything in the record, and the record last. The caller must hold the locks of the instance and of
// the machine.
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

// forget deletes the record of an instance. If no other record exists, it also deletes the control group that all
// instances share, and restores the kernel limit that raiseLimits changed.
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
