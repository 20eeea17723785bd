// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance brings whole playgrounds up and down.
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

// ErrNotUp is the cause when there is no such instance.
var ErrNotUp = errors.New("is not up")

// Steps prints what is done, with the time since the beginning.
type Steps struct {
	Out     io.Writer
	started time.Time
}

// NewSteps starts the clock.
func NewSteps(out io.Writer) *Steps { return &Steps{Out: out, started: time.Now()} }

// Done prints one finished step of a subject, such as a cluster.
func (s *Steps) Done(subject, format string, args ...any) {
	fmt.Fprintf(s.Out, "%6.1fs  %-12s %s\n", s.Elapsed().Seconds(), subject, fmt.Sprintf(format, args...))
}

// Elapsed is the time since the beginning.
func (s *Steps) Elapsed() time.Duration { return time.Since(s.started) }

// Load returns a recorded instance. The error is ErrNotUp when there is none.
func Load(name string) (*state.Instance, error) {
	i, err := state.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("instance %s %w; start it with: playground up --instance %s", name, ErrNotUp, name)
	}
	return i, err
}

// LoadOwned returns a recorded instance whose state directory is dir, for those
// who want to change it.
func LoadOwned(name, dir string) (*state.Instance, error) {
	i, err := Load(name)
	if err != nil {
		return nil, err
	}
	return i, owned(i, dir)
}

// owned refuses an instance that was brought up from another state directory:
// names are the machine's, and two checkouts may have thought of the same one.
func owned(i *state.Instance, dir string) error {
	if i.Dir == dir {
		return nil
	}
	return fmt.Errorf("instance %s was brought up with its state in %s; choose another --instance, or say that you mean this one with: --state %s", i.Name, i.Dir, i.Dir)
}

// Lock makes sure that nobody else changes the instance.
func Lock(ctx context.Context, name string, steps *Steps) (unlock func(), err error) {
	path := state.RunDir(name) + ".lock"
	release, err := state.Lock(ctx, path, func() {
		steps.Done(name, "waiting for another playground that works on this instance")
	})
	return tidy(release, path, func() bool {
		_, err := state.Load(name)
		return errors.Is(err, fs.ErrNotExist)
	}), err
}

// lockMachine guards what all instances share: addresses and kernel limits.
func lockMachine(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(state.Root, "machine.lock")
	release, err := state.Lock(ctx, path, nil)
	return tidy(release, path, func() bool {
		names, err := state.Instances()
		return err == nil && len(names) == 0
	}), err
}

// tidy removes a lock's file before its release if nothing is left to guard.
// Whoever waits for the lock notices that the file has gone. What cannot be
// removed is still in use.
func tidy(release func(), path string, unused func() bool) func() {
	return func() {
		if unused() {
			os.Remove(path)
		}
		release()
		os.Remove(state.Root)
	}
}

// clusterOf binds a recorded cluster to the programs that run it.
func clusterOf(i *state.Instance, c *state.Cluster, tools *build.Set) *cluster.Cluster {
	return &cluster.Cluster{Cluster: c, Instance: i, Tools: tools}
}
