// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/kernel"
)

// NewOptions are the defaults.
func NewOptions() *agent.Options { return agent.NewOptions("127.0.0.1:5876") }

// NewCommand is the route command. It runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:           "route",
		Short:         "Leads packets between this node and the gateway to other clusters",
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
			return run(ctx, options)
		},
	}
	options.AddFlags(command.Flags())
	return command
}

func run(ctx context.Context, options *agent.Options) (err error) {
	node, err := kernel.Current()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if options.Cleanup {
		_, err := agent.CleanRoute(node)
		return errors.Join(err, tidy(node, options.NamespacePath))
	}
	kube, federation, err := options.Clients("liqo-route")
	if err != nil {
		return err
	}
	a, err := New(options, kube, federation, node, legacyregistry.Register)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
