// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/network"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Partition cuts the traffic between two clusters, or lets it flow again. It
// stays so over the next Up. The host reaches both clusters all the time.
func Partition(ctx context.Context, w Want, a, b string, cut bool, steps *Steps) error {
	unlock, err := Lock(ctx, w.Instance, steps)
	if err != nil {
		return err
	}
	defer unlock()
	i, err := LoadOwned(w.Instance, w.Dir)
	if err != nil {
		return err
	}
	for _, name := range []string{a, b} {
		if _, err := i.Cluster(name); err != nil {
			return err
		}
	}
	if a == b {
		return fmt.Errorf("%s cannot be parted from itself", a)
	}
	pair := state.NewCut(a, b)
	i.Cuts = slices.DeleteFunc(i.Cuts, func(c state.Cut) bool { return c == pair })
	if cut {
		i.Cuts = append(i.Cuts, pair)
	}
	if err := i.Save(); err != nil {
		return err
	}
	return network.Filter(ctx, i)
}

// Restart ends a daemon on all nodes of a cluster that run it, or a whole node,
// and brings it up again. Daemons are killed without a warning: what a restart
// is for is to see what happens then.
func Restart(ctx context.Context, w Want, name, what string, tools *build.Set, steps *Steps) error {
	i, err := LoadOwned(w.Instance, w.Dir)
	if err != nil {
		return err
	}
	c, err := i.Cluster(name)
	if err != nil {
		return err
	}
	killed := 0
	for _, n := range c.Nodes {
		victim := n.Holder
		if n.Name != what {
			running, err := sandbox.Daemons(n.Holder)
			if err != nil {
				return err
			}
			daemon, ok := running[what]
			if !ok {
				continue
			}
			victim = daemon.Process
		}
		if err := sandbox.Kill(ctx, victim, unix.SIGKILL); err != nil {
			return err
		}
		steps.Done(n.Name, "%s killed", what)
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("%q is neither a node of %s nor runs on one; see: playground status", what, name)
	}
	w.Clusters = []string{name}
	return Up(ctx, w, tools, steps)
}
