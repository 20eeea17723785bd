// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"github.com/spf13/cobra"
)

func newBuild(c *common) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build Kubernetes and its dependencies",
		Long: `build builds the programs that are not in the user's cache directory, and links
all of them into bin of the state directory. The first build takes about 14
minutes on 2 cores. Other checkouts use the same cache.`,
		Example: `  playground build
  playground build --only kube-apiserver,etcd,kubectl`,
		Args: use(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := c.build(cmd.Context(), only...)
			if err != nil {
				return err
			}
			return printTo(cmd.OutOrStdout(), "programs are in %s\n", tools.Bin)
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil,
		"names of the programs to build, for example etcd,kubectl; all by default")
	return cmd
}
