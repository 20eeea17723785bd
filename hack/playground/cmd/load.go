// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
)

func newLoad(c *common) *cobra.Command {
	var clusters []string
	cmd := &cobra.Command{
		Use:   "load IMAGE.tar...",
		Short: "Load container images into every node",
		Long: `load imports docker archives into containerd of every node that does not have
the same content yet, except fake nodes. Pods use the images with imagePullPolicy
Never or IfNotPresent.`,
		Example: `  playground load _output/*.tar
  playground load --cluster milan _output/federation-virtual-kubelet.tar`,
		Args: use(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, archives []string) error {
			if err := checkMachine(); err != nil {
				return err
			}
			i, err := instance.LoadOwned(c.instance, c.stateDir)
			if err != nil {
				return err
			}
			tools, err := c.build(cmd.Context(), "ctr")
			if err != nil {
				return err
			}
			return instance.LoadImages(cmd.Context(), i, tools, clusters, archives, instance.NewSteps(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringArrayVar(&clusters, "cluster", nil, "cluster to load into, all by default; may be repeated")
	return cmd
}
