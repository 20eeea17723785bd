// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/network"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Up adds the clusters of w to the instance, and starts all nodes and daemons of the instance that do not run yet. It
// restarts daemons whose Spec has changed. It can be called again after an interruption.
func Up(ctx context.Context, w Want, tools *build.Set, steps *Steps) error {
	images, err := cluster.BaseImages(ctx, tools)
	if err != nil {
		return err
	}
	unlock, err := Lock(ctx, w.Instance, steps)
	if err != nil {
		return err
	}
	defer unlock()
	u := &up{tools: tools, steps: steps, images: images, want: w}
	if u.instance, err = reserve(ctx, w); err != nil {
		return err
	}
	if err := u.router(ctx); err != nil {
		return err
	}
	var clusters []func(context.Context) error
	for index, c := range u.instance.Clusters {
		clusters = append(clusters, func(ctx context.Context) error {
			if err := u.cluster(ctx, index); err != nil {
				return fmt.Errorf("cluster %s: %w", c.Name, err)
			}
			return nil
		})
	}
	return parallel(ctx, clusters...)
}

type up struct {
	instance *state.Instance
	tools    *build.Set
	steps    *Steps
	images   []string
	want     Want
	// mu guards the record, as nodes start in parallel.
	mu sync.Mutex
}

// reserve writes names and addresses of the clusters and nodes into the record, and returns the instance. Before that
// it deletes an instance of this name that was abandoned, and it raises the kernel's limit of inotify instances.
func reserve(ctx context.Context, w Want) (*state.Instance, error) {
	unlock, err := lockMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	used, err := network.Used()
	if err != nil {
		return nil, err
	}
	i, err := state.Load(w.Instance)
	if err == nil {
		lost, err := abandoned(i, w.Dir)
		if err != nil {
			return nil, err
		}
		if lost {
			if err := remove(ctx, i); err != nil {
				return nil, err
			}
			i = nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Another instance may have recorded a subnet to which it has no route yet.
	reserved, err := reservedElsewhere(w.Instance)
	if err != nil {
		return nil, err
	}
	used = append(used, reserved...)
	if i == nil {
		if i, err = newInstance(w, used); err != nil {
			return nil, err
		}
		// Files of an instance without a record are from before a reboot, and obsolete.
		if err := os.RemoveAll(i.Path()); err != nil {
			return nil, err
		}
	}
	if err := plan(i, w, used); err != nil {
		return nil, err
	}
	if err := raiseLimits(); err != nil {
		return nil, err
	}
	if err := i.Save(); err != nil {
		return nil, err
	}
	return i, mark(i)
}

func (u *up) router(ctx context.Context) error {
	i := u.instance
	if !sandbox.Alive(i.Router) {
		err := sandbox.Start(sandbox.Config{
			Init:  u.tools.Path("nodeinit"),
			Owner: i.Name + "/router",
			Log:   cluster.LogPath(i, "router", "init"),
		}, u.record(&i.Router))
		if err != nil {
			return err
		}
	}
	if err := network.SetUpRouter(ctx, i); err != nil {
		return err
	}
	for _, c := range i.Clusters {
		u.steps.Done(c.Name, "nodes in %s, pods in %s, Services in %s", c.NodeCIDR, c.PodCIDR, c.ServiceCIDR)
	}
	return nil
}

// record returns a function that stores the identity of a process at place, and saves the record.
func (u *up) record(place *state.Process) func(state.Process) error {
	return func(p state.Process) error {
		u.mu.Lock()
		defer u.mu.Unlock()
		*place = p
		return u.instance.Save()
	}
}

func (u *up) cluster(ctx context.Context, index int) error {
	c := clusterOf(u.instance, u.instance.Clusters[index], u.tools)
	if err := c.WriteKeys(); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if !sandbox.Alive(n.Holder) {
			if err := c.StartNode(n, u.record(&n.Holder)); err != nil {
				return err
			}
		}
		if err := network.SetUpNode(ctx, u.instance, index, n); err != nil {
			return err
		}
	}
	server, err := c.ServerDaemons()
	if err != nil {
		return err
	}
	managers, err := c.ManagerDaemons()
	if err != nil {
		return err
	}
	started, err := u.ensure(ctx, c.ControlPlane(), server...)
	if err != nil {
		return err
	}
	steps := []func(context.Context) error{func(ctx context.Context) error {
		if err := c.WaitForServer(ctx); err != nil {
			return err
		}
		if started > 0 {
			u.steps.Done(c.Name, "API server ready at %s", c.Server())
		}
		if _, err := u.ensure(ctx, c.ControlPlane(), managers...); err != nil {
			return err
		}
		return c.Apply(ctx)
	}}
	for _, n := range c.Nodes {
		steps = append(steps, func(ctx context.Context) error { return u.node(ctx, c, n) })
	}
	if err := parallel(ctx, steps...); err != nil {
		return err
	}
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	u.steps.Done(c.Name, "ready: %d nodes, DNS and storage; kubeconfig %s",
		len(c.Nodes)+c.FakeNodes, u.instance.Kubeconfig(c.Name))
	remove := u.want.NetworkPolicies != nil && slices.Contains(u.want.Clusters, c.Name)
	return u.policies(ctx, c, remove)
}

// node starts the daemons of a node, and loads the base images into the node.
func (u *up) node(ctx context.Context, c *cluster.Cluster, n *state.Node) error {
	daemons, err := c.NodeDaemons(n)
	if err != nil {
		return err
	}
	if _, err := u.ensure(ctx, n, daemons[0]); err != nil {
		return err
	}
	if err := c.WaitForContainerd(ctx, n); err != nil {
		return err
	}
	// The pause image must be loaded first: no pod starts without it.
	if _, err := c.Import(ctx, n, u.images...); err != nil {
		return err
	}
	if err := c.WaitForServer(ctx); err != nil {
		return err
	}
	if _, err := u.ensure(ctx, n, daemons[1:]...); err != nil {
		return err
	}
	return c.WaitForKubelet(ctx, n)
}

// ensure starts each daemon that does not run with its current Spec, and returns how many it started.
func (u *up) ensure(ctx context.Context, n *state.Node, daemons ...sandbox.Command) (int, error) {
	running, err := sandbox.Daemons(n.Holder)
	if err != nil {
		return 0, err
	}
	started := 0
	for _, d := range daemons {
		spec, err := d.Spec()
		if err != nil {
			return started, err
		}
		current, found := running[d.Name]
		if found && current.Spec == spec {
			continue
		}
		if found {
			if err := sandbox.Stop(ctx, current.Process); err != nil {
				return started, fmt.Errorf("%s on %s: %w", d.Name, n.Name, err)
			}
		}
		if err := sandbox.Spawn(ctx, n.Holder, u.tools.Path("nodeinit"), d); err != nil {
			return started, fmt.Errorf("node %s: %w", n.Name, err)
		}
		started++
	}
	return started, nil
}

// parallel calls all functions in parallel. The first error cancels the context of the other functions.
func parallel(ctx context.Context, functions ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, f := range functions {
		group.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
