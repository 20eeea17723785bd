// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the federation-controller-manager: its flags, the Config that its controllers share, their
// list, and the endpoints for health and metrics.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/nearest"
	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/logging"
)

// shutdownTimeout is the time in which requests in flight may complete when the process stops.
const shutdownTimeout = 5 * time.Second

// leaseTolerance is the time for which the Lease of a leader may have expired before its liveness check fails.
const leaseTolerance = 20 * time.Second

// NewCommand returns the root command, which runs until ctx is done.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:   "federation-controller-manager",
		Short: "Run the controllers of the federation",
		Long: "The federation-controller-manager reconciles the objects of the federation: peerings, resource\n" +
			"offers, offloaded namespaces and volumes, in this cluster and, through their APIs, on its providers.",
		Version:      compatibility.Version,
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			if err := utilerrors.NewAggregate(options.Validate()); err != nil {
				return err
			}
			return Run(cmd.Context(), options)
		},
	}
	cmd.SetContext(ctx)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return nearest.FlagError(cmd.Flags(), err)
	})
	cmd.AddCommand(newCheckCommand(), newUninstallCommand())
	flags := cmd.Flags()
	options.AddFlags(flags)
	globalflag.AddGlobalFlags(flags, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	return cmd
}

// Run starts the selected controllers, and serves health and metrics until ctx is done. It fails if a controller cannot
// be initialized, or if the manager of the controllers fails.
func Run(ctx context.Context, options *Options) error {
	ctx = logging.WithLimits(ctx)
	config, err := options.Config(ctx)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	cancel := func() { fail(nil) }
	defer cancel()

	// Health checks are served before the federation API is reached, which may take longer than a liveness probe
	// allows.
	var ready readiness
	watchdog := leaderelection.NewLeaderHealthzAdaptor(leaseTolerance)
	stopped, err := serve(ctx, config, watchdog, &ready)
	if err != nil {
		return err
	}
	defer func() { <-stopped }()
	defer cancel()
	if err := awaitAPI(ctx, config.Kube.Discovery()); err != nil {
		return err
	}
	if err := initControllers(ctx, config, options.Controllers); err != nil {
		return err
	}
	// The manager starts this runnable after its caches have synced.
	err = config.manager.Add(manager.RunnableFunc(func(context.Context) error {
		ready.set()
		return nil
	}))
	if err != nil {
		return err
	}

	config.Events.StartStructuredLogging(4)
	config.startEventSink(ctx)
	defer config.Events.Shutdown()

	err = config.workAsLeader(ctx, watchdog, ready.set, func(ctx context.Context) {
		// A manager cannot be started twice: its failure, for example because a watched kind is not served, ends the
		// process.
		if err := config.manager.Start(ctx); err != nil && ctx.Err() == nil {
			fail(fmt.Errorf("running the manager of controllers: %w", err))
		}
	})
	cancel()
	<-stopped
	klog.FromContext(ctx).Info("Stopped")
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// workAsLeader calls work: immediately if leader election is disabled, and otherwise once this process holds the Lease.
// It calls standby whenever another process becomes the leader.
func (c *Config) workAsLeader(
	ctx context.Context, watchdog *leaderelection.HealthzAdaptor, standby func(), work func(context.Context),
) error {
	election := c.Options.LeaderElection
	if !election.LeaderElect {
		work(ctx)
		return nil
	}
	lock, err := newLock(c.client, c.Options)
	if err != nil {
		return err
	}
	return leader.Lead(ctx, lock, leader.Terms{
		Name: "federation-controllers", Lease: election.LeaseDuration.Duration, Renew: election.RenewDeadline.Duration,
		Retry: election.RetryPeriod.Duration, Watchdog: watchdog, Standby: standby,
	}, work)
}
