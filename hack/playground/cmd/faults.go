// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
)

func newPartition(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "partition CLUSTER CLUSTER",
		Aliases: []string{"pause-link"},
		Short:   "Cut the traffic between two clusters",
		Long: `partition makes the router drop all packets between two clusters, until playground
heal restores the traffic. This machine can still reach both clusters.`,
		Args: use(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.partition(cmd, args, true) },
	}
}

func newHeal(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "heal CLUSTER CLUSTER",
		Aliases: []string{"resume-link"},
		Short:   "Restore the traffic between two clusters",
		Args:    use(cobra.ExactArgs(2)),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.partition(cmd, args, false) },
	}
}

func (c *common) partition(cmd *cobra.Command, args []string, cut bool) error {
	if err := checkMachine(); err != nil {
		return err
	}
	return instance.Partition(cmd.Context(), c.want(), args[0], args[1], cut, instance.NewSteps(cmd.OutOrStdout()))
}

func newRestart(c *common) *cobra.Command {
	return &cobra.Command{
		Use:   "restart CLUSTER DAEMON|NODE",
		Short: "Kill and restart a daemon or a node",
		Long: `restart kills a daemon, on every node of the cluster that runs it, or a whole node
as a power cut does, and starts it again.`,
		Example: `  playground restart milan kube-apiserver
  playground restart milan milan-worker-1`,
		Args: use(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkMachine(); err != nil {
				return err
			}
			tools, err := c.buildClusters(cmd.Context(), c.want())
			if err != nil {
				return err
			}
			return instance.Restart(cmd.Context(), c.want(), args[0], args[1], tools, instance.NewSteps(cmd.OutOrStdout()))
		},
	}
}
