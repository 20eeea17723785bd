// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance starts, repairs and deletes the clusters of an instance.
package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/state"
)

// ErrNotUp means that an instance does not exist.
var ErrNotUp = errors.New("does not exist")

// Steps prints finished steps with the time since it was created.
type Steps struct {
	Out     io.Writer
	started time.Time
}

// NewSteps returns Steps that measure the time from now on.
func NewSteps(out io.Writer) *Steps { return &Steps{Out: out, started: time.Now()} }

// Done prints that a step is finished. Subject is what the step is about, for example a cluster.
func (s *Steps) Done(subject, format string, args ...any) {
	fmt.Fprintf(s.Out, "%6.1fs  %-12s %s\n", s.Elapsed().Seconds(), subject, fmt.Sprintf(format, args...))
}

// Elapsed returns the time since NewSteps was called.
func (s *Steps) Elapsed() time.Duration { return time.Since(s.started) }

// Load returns an instance from its record. It fails with ErrNotUp if there is no record.
func Load(name string) (*state.Instance, error) {
	i, err := state.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("instance %s %w; start it with: playground up --instance %s", name, ErrNotUp, name)
	}
	return i, err
}

// LoadOwned returns an instance that may be changed. It fails with ErrNotUp if it has no record, and fails if dir
// is not its state directory.
func LoadOwned(name, dir string) (*state.Instance, error) {
	i, err := Load(name)
	if err != nil {
		return nil, err
	}
	return i, owned(i, dir)
}

// owned returns an error unless dir is the state directory of an instance. Names of instances are unique on a
// machine, and two checkouts may use the same name.
func owned(i *state.Instance, dir string) error {
	if i.Dir == dir {
		return nil
	}
	return fmt.Errorf("instance %s has the state directory %s; choose another --instance, or use this one with: "+
		"--state %s", i.Name, i.Dir, i.Dir)
}

// Lock locks an instance against changes by other processes. It waits for the lock until ctx ends.
func Lock(ctx context.Context, name string, steps *Steps) (unlock func(), err error) {
	path := state.RunDir(name) + ".lock"
	release, err := state.Lock(ctx, path, func() {
		steps.Done(name, "waiting until another playground process has changed this instance")
	})
	return tidy(release, path, func() bool {
		_, err := state.Load(name)
		return errors.Is(err, fs.ErrNotExist)
	}), err
}

// lockMachine locks what all instances on a machine share: addresses and kernel limits.
func lockMachine(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(state.Root, "machine.lock")
	release, err := state.Lock(ctx, path, nil)
	return tidy(release, path, func() bool {
		names, err := state.Instances()
		return err == nil && len(names) == 0
	}), err
}

// tidy returns a function that deletes the lock's file if unused returns true, calls release, and deletes the directory
// of all records if it is empty. Other processes that wait in Lock detect the deletion of the file.
func tidy(release func(), path string, unused func() bool) func() {
	return func() {
		if unused() {
			os.Remove(path)
		}
		release()
		os.Remove(state.Root)
	}
}

// clusterOf returns a cluster in the record together with the programs that it runs.
func clusterOf(i *state.Instance, c *state.Cluster, tools *build.Set) *cluster.Cluster {
	return &cluster.Cluster{Cluster: c, Instance: i, Tools: tools}
}
