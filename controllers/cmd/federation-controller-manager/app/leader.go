// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A leader that is silent for leaseDuration has lost; it gives up by itself
// after renewDeadline, so that there are never two.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// lead runs the controllers while this process is the leader. The host name,
// which is that of the pod, tells the candidates apart, so that a container
// that was killed leads again as soon as it is back.
func lead(ctx context.Context, config *Config, runners []Runner) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("learn the name of this pod: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.Options.Namespace, Name: config.Options.ServiceAccount},
			Client:     config.Kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { runAll(ctx, runners) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return errors.New("lost the lead: the lease could not be renewed in time")
	}
	return nil
}

func runAll(ctx context.Context, runners []Runner) {
	var running sync.WaitGroup
	for _, run := range runners {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
}
