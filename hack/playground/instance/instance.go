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

// ErrNotUp is the error for an instance that does not exist.
var ErrNotUp = errors.New("does not exist")

// Steps prints finished steps, with the time since NewSteps.
type Steps struct {
	Out     io.Writer
	started time.Time
}

// NewSteps returns Steps that begin at this time.
func NewSteps(out io.Writer) *Steps { return &Steps{Out: out, started: time.Now()} }

// Done prints a finished step of a subject, for example a cluster.
func (s *Steps) Done(subject, format string, args ...any) {
	fmt.Fprintf(s.Out, "%6.1fs  %-12s %s\n", s.Elapsed().Seconds(), subject, fmt.Sprintf(format, args...))
}

// Elapsed returns the time since NewSteps.
func (s *Steps) Elapsed() time.Duration { return time.Since(s.started) }

// Load returns a recorded instance. It fails with ErrNotUp if there is none.
func Load(name string) (*state.Instance, error) {
	i, err := state.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("instance %s %w; start it with: playground up --instance %s", name, ErrNotUp, name)
	}
	return i, err
}

// LoadOwned returns a recorded instance for changes. It fails with ErrNotUp if there is none, and if its
// state directory is not dir.
func LoadOwned(name, dir string) (*state.Instance, error) {
	i, err := Load(name)
	if err != nil {
		return nil, err
	}
	return i, owned(i, dir)
}

// owned returns an error if the state directory of an instance is not dir: names are unique on a machine,
// and two checkouts may use the same one.
func owned(i *state.Instance, dir string) error {
	if i.Dir == dir {
		return nil
	}
	return fmt.Errorf("instance %s has the state directory %s; choose another --instance, or use this one with: "+
		"--state %s", i.Name, i.Dir, i.Dir)
}

// Lock locks an instance against changes by other processes. It waits until ctx ends.
func Lock(ctx context.Context, name string, steps *Steps) (unlock func(), err error) {
	path := state.RunDir(name) + ".lock"
	release, err := state.Lock(ctx, path, func() {
		steps.Done(name, "waiting for another playground process that changes this instance")
	})
	return tidy(release, path, func() bool {
		_, err := state.Load(name)
		return errors.Is(err, fs.ErrNotExist)
	}), err
}

// lockMachine locks what all instances share: addresses and kernel limits.
func lockMachine(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(state.Root, "machine.lock")
	release, err := state.Lock(ctx, path, nil)
	return tidy(release, path, func() bool {
		names, err := state.Instances()
		return err == nil && len(names) == 0
	}), err
}

// tidy returns a release that first deletes the file of the lock, if unused returns true. Lock detects
// that the file was deleted. The root directory is only deleted if it is empty.
func tidy(release func(), path string, unused func() bool) func() {
	return func() {
		if unused() {
			os.Remove(path)
		}
		release()
		os.Remove(state.Root)
	}
}

// clusterOf returns a recorded cluster with the programs that it runs.
func clusterOf(i *state.Instance, c *state.Cluster, tools *build.Set) *cluster.Cluster {
	return &cluster.Cluster{Cluster: c, Instance: i, Tools: tools}
}
