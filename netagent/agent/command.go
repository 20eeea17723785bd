// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/nearest"
)

// NewCommand returns the command of an agent. It validates the options and configures logging before it calls
// run.
func NewCommand(name, short string, options interface {
	AddFlags(*pflag.FlagSet)
	Validate() []error
}, logs *logs.Options, run func() error) *cobra.Command {
	command := &cobra.Command{
		Use:           name,
		Short:         short,
		Args:          cobra.NoArgs,
		Version:       compatibility.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := utilerrors.NewAggregate(options.Validate()); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(logs, nil); err != nil {
				return err
			}
			return run()
		},
	}
	options.AddFlags(command.Flags())
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return nearest.FlagError(command.Flags(), err)
	})
	return command
}
