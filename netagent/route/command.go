// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/kernel"
)

// NewOptions returns the defaults.
func NewOptions() *agent.Options { return agent.NewOptions("127.0.0.1:5876") }

// NewCommand returns the federation-route command, which runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	return agent.NewCommand(
		"federation-route",
		"Routes packets between this node and the gateway to remote clusters",
		options,
		options.Logs,
		func() error { return run(ctx, options) },
	)
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
	kube, federation, err := options.Clients("federation-route")
	if err != nil {
		return err
	}
	a, err := New(options, kube, federation, node, legacyregistry.Register)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
