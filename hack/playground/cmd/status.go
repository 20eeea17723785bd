// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
	"liqo.io/federation/hack/playground/sandbox"
)

func newStatus(c *common) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the status of clusters and nodes",
		Long: `status prints each node, except fake nodes, with the number of its running daemons
and its condition Ready. The exit code is 1 if a daemon is not running or a node
not Ready.`,
		Args: use(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := instance.Load(c.instance)
			if err != nil {
				return err
			}
			tools, err := c.build(cmd.Context(), "kubectl")
			if err != nil {
				return err
			}
			nodes, failures, err := instance.Status(cmd.Context(), i, tools)
			if err != nil {
				return err
			}
			healthy := len(failures) == 0 && sandbox.Alive(i.Router)
			out := cmd.OutOrStdout()
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "CLUSTER\tNODE\tADDRESS\tPODS\tDAEMONS\tREADY\tDOWN")
			for _, n := range nodes {
				healthy = healthy && n.Healthy()
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", n.Cluster, n.Node.Name, n.Node.Address, n.Node.PodCIDR,
					n.Running, n.Expected, n.Kubernetes, strings.Join(n.Missing, ","))
			}
			if err := table.Flush(); err != nil {
				return err
			}
			for _, cluster := range i.Clusters {
				if cluster.FakeNodes > 0 {
					fmt.Fprintf(out, "%s also has %d fake nodes\n", cluster.Name, cluster.FakeNodes)
				}
				if err, ok := failures[cluster.Name]; ok {
					fmt.Fprintf(out, "%s: the API server is not available: %v\n", cluster.Name, err)
				}
			}
			for _, cut := range i.Cuts {
				fmt.Fprintf(out, "the router drops traffic between %s and %s; restore it with: playground heal %s %s\n",
					cut.A, cut.B, cut.A, cut.B)
			}
			if !sandbox.Alive(i.Router) {
				fmt.Fprintln(out, "the router between the clusters is not running")
			}
			if !healthy {
				fmt.Fprintln(out, "some daemons are not running; start them with: playground up")
				return exitCode(1)
			}
			return nil
		},
	}
}
