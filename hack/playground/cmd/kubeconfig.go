// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
)

func newKubeconfig(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig CLUSTER",
		Short:   "Print the path of a cluster's kubeconfig",
		Example: `  export KUBECONFIG=$(playground kubeconfig rome)`,
		Args:    use(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := instance.Load(c.instance)
			if err != nil {
				return err
			}
			if _, err := i.Cluster(args[0]); err != nil {
				return err
			}
			return printTo(cmd.OutOrStdout(), "%s\n", i.Kubeconfig(args[0]))
		},
	}
}
