// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the federation-controller-manager: its flags, what its
// controllers share, the list of them, and what it serves.
package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/leader"
	"liqo.io/federation/controllers/logging"
)

// shutdownTimeout bounds how long requests that are being served may take
// once the process has to end.
const shutdownTimeout = 5 * time.Second

// leaseTolerance is how long a leader may fail to give up a lease that has
// run out, before it counts as dead.
const leaseTolerance = 20 * time.Second

// NewCommand makes the command that runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:   "federation-controller-manager",
		Short: "Run the controllers of the federation",
		Long: "The federation-controller-manager makes what ForeignClusters, offers and offloaded\n" +
			"namespaces ask for come true, on this cluster and, through their APIs, on its providers.",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
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
	cmd.AddCommand(newCheckCommand(), newUninstallCommand())
	flags := cmd.Flags()
	options.AddFlags(flags)
	verflag.AddFlags(flags)
	globalflag.AddGlobalFlags(flags, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	return cmd
}

// Run starts the selected controllers and serves health and metrics, until
// the context ends or something that cannot be repaired happens.
func Run(ctx context.Context, options *Options) error {
	ctx = logging.WithoutBodies(ctx)
	config, err := options.Config(ctx)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	cancel := func() { fail(nil) }
	defer cancel()

	// Health is served at once: the API may take longer than a probe allows.
	var synced readiness
	watchdog := leaderelection.NewLeaderHealthzAdaptor(leaseTolerance)
	stopped, err := serve(ctx, config, watchdog, &synced)
	if err != nil {
		return err
	}
	defer func() { <-stopped }()
	defer cancel()
	if err := awaitAPI(ctx, config.Federation.Discovery()); err != nil {
		return err
	}
	runners, err := initControllers(ctx, config, options.Controllers)
	if err != nil {
		return err
	}
	if config.manager != nil {
		runners = append(runners, config.managerRunner(fail))
	}

	config.Events.StartStructuredLogging(4)
	config.startEventSink(ctx)
	defer config.Events.Shutdown()

	defer config.stopInformers()
	defer cancel()
	if err := config.startInformers(ctx); err != nil {
		return err
	}
	synced.set()

	err = workAsLeader(ctx, config, watchdog, func(ctx context.Context) {
		var working sync.WaitGroup
		for _, run := range runners {
			working.Go(func() { run(ctx) })
		}
		working.Wait()
	})
	cancel()
	<-stopped
	klog.FromContext(ctx).Info("Stopped")
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// workAsLeader calls work, as soon as no other process does if there may be
// others. Until then the caches follow, so that work can start at once.
func workAsLeader(ctx context.Context, config *Config, watchdog *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	election := config.Options.LeaderElection
	if !election.LeaderElect {
		work(ctx)
		return nil
	}
	lock, err := newLock(config.client, config.Options)
	if err != nil {
		return err
	}
	return leader.Lead(ctx, lock, leader.Terms{
		Name: "federation-controllers", Lease: election.LeaseDuration.Duration, Renew: election.RenewDeadline.Duration,
		Retry: election.RetryPeriod.Duration, Watchdog: watchdog,
	}, work)
}
