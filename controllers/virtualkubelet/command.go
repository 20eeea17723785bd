// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
)

// gcPercent keeps the heap small: nearly all of it are caches, which live
// long, and memory is what many virtual kubelets in one cluster cost.
const gcPercent = 40

// NewCommand is the virtual-kubelet command. It runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:           "virtual-kubelet",
		Short:         "Makes one provider of the federation a node of this cluster",
		Args:          cobra.NoArgs,
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := utilerrors.NewAggregate(options.Validate()); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			return Run(ctx, options, legacyregistry.Register)
		},
	}
	options.AddFlags(command.Flags())
	return command
}
