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

// Partition cuts the traffic between the clusters a and b, or restores it if cut is false. A later Up neither cuts nor
// restores it. This machine can reach both clusters in any case. Partition fails if one of the clusters does not exist,
// or both names are the same.
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
		return fmt.Errorf("cutting the traffic of cluster %s: name two different clusters", a)
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

// Restart kills what, which is the name of a node of the named cluster or of a daemon on all nodes of this cluster,
// with SIGKILL, and starts it again. It fails if the cluster has no such node or daemon.
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
		return fmt.Errorf("%q is neither a node of cluster %s nor a daemon that runs on one; see: playground status",
			what, name)
	}
	w.Clusters = []string{name}
	return Up(ctx, w, tools, steps)
}
