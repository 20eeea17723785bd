// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
	"liqo.io/federation/hack/playground/state"
)

func newDown(c *common) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop an instance and delete all its data",
		Long: `down kills all processes of the instance and deletes its namespaces, links,
control groups, kubeconfigs, keys, volumes and logs, also after an up that was
interrupted or killed. Built programs are kept.`,
		Args: use(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkMachine(); err != nil {
				return err
			}
			names, dir := []string{c.instance}, c.stateDir
			if all {
				dir = ""
				var err error
				if names, err = state.Instances(); err != nil {
					return err
				}
			}
			steps := instance.NewSteps(cmd.OutOrStdout())
			var failed []error
			for _, name := range names {
				if err := instance.Down(cmd.Context(), name, dir, steps); err != nil {
					failed = append(failed, fmt.Errorf("instance %s: %w", name, err))
				}
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().BoolVar(&all, "all-instances", false, "delete every instance on this machine")
	return cmd
}
