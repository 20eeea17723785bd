// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/nearest"
)

// NewCommand returns the federation-virtual-kubelet command, which runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:           "federation-virtual-kubelet",
		Short:         "Maintains a virtual node of this cluster and runs its pods on a provider",
		Args:          cobra.NoArgs,
		Version:       compatibility.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := utilerrors.NewAggregate(options.Validate()); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			if !options.Profiling {
				// Without profiling, the heap profile cannot be read, and its table would use more than a megabyte.
				runtime.MemProfileRate = 0
			}
			go adaptMemoryLimit(ctx)
			return Run(ctx, options, legacyregistry.Register)
		},
	}
	options.AddFlags(command.Flags())
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return nearest.FlagError(command.Flags(), err)
	})
	return command
}
