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
		Short: "Build Kubernetes and what it needs",
		Long: `build builds the programs that are not built yet and links all of them into the
state directory's bin. A first build takes about 11 minutes on 2 cores; built
programs stay in the user's cache directory, also for other checkouts.`,
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
	cmd.Flags().StringSliceVar(&only, "only", nil, "names of programs; all by default")
	return cmd
}
