// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"

	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/state"
)

// policies starts the policy engine on all nodes of a cluster that enforces NetworkPolicies, and waits until it applies
// them. In any other cluster, if remove is set, it stops the policy engine, and deletes its iptables chains, its ipsets
// and its permissions. The nodes must be Ready.
func (u *up) policies(ctx context.Context, c *cluster.Cluster, remove bool) error {
	switch {
	case c.NetworkPolicies:
		err := onNodes(ctx, c, func(ctx context.Context, n *state.Node) error {
			if _, err := u.ensure(ctx, n, c.PolicyDaemon(n)); err != nil {
				return err
			}
			return c.WaitForPolicies(ctx, n)
		})
		if err != nil {
			return err
		}
		u.steps.Done(c.Name, "enforces NetworkPolicies with %s", cluster.PolicyEngine)
	case remove:
		if err := onNodes(ctx, c, c.RemovePolicies); err != nil {
			return err
		}
		if err := c.DeletePolicyRights(ctx); err != nil {
			return err
		}
		u.steps.Done(c.Name, "does not enforce NetworkPolicies")
	}
	return nil
}

// onNodes calls f for all nodes of a cluster in parallel.
func onNodes(ctx context.Context, c *cluster.Cluster, f func(context.Context, *state.Node) error) error {
	var calls []func(context.Context) error
	for _, n := range c.Nodes {
		calls = append(calls, func(ctx context.Context) error { return f(ctx, n) })
	}
	return parallel(ctx, calls...)
}
