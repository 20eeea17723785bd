// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentconfig "k8s.io/component-base/config"
)

const (
	// A process that is cut off stops working after renewDeadline, before
	// another one starts after leaseDuration.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	// retryPeriod is about how long a lease that was given back lies there.
	retryPeriod = time.Second

	// podName is the environment variable that a pod's container knows its pod by.
	podName = "POD_NAME"
)

func newLeaderElection() componentconfig.LeaderElectionConfiguration {
	return componentconfig.LeaderElectionConfiguration{
		LeaderElect:   true,
		LeaseDuration: metav1.Duration{Duration: leaseDuration},
		RenewDeadline: metav1.Duration{Duration: renewDeadline},
		RetryPeriod:   metav1.Duration{Duration: retryPeriod},
		ResourceLock:  resourcelock.LeasesResourceLock,
	}
}

// validateLeaderElection says what the library would panic about.
func validateLeaderElection(c *componentconfig.LeaderElectionConfiguration) []error {
	if !c.LeaderElect {
		return nil
	}
	var errs []error
	if c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline %s: must be less than --leader-elect-lease-duration %s", c.RenewDeadline.Duration, c.LeaseDuration.Duration))
	}
	if c.RetryPeriod.Duration <= 0 || float64(c.RenewDeadline.Duration) <= leaderelection.JitterFactor*float64(c.RetryPeriod.Duration) {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period %s: must be more than 0 and, times %.1f, less than --leader-elect-renew-deadline %s", c.RetryPeriod.Duration, leaderelection.JitterFactor, c.RenewDeadline.Duration))
	}
	if c.ResourceLock != resourcelock.LeasesResourceLock {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock %q: must be %s", c.ResourceLock, resourcelock.LeasesResourceLock))
	}
	return errs
}

// newLock is the Lease that the processes of one Deployment share. Those with
// different accounts run different controllers, so the account names it.
func newLock(client *rest.Config, o *Options) (resourcelock.Interface, error) {
	c := o.LeaderElection
	identity, err := identity()
	if err != nil {
		return nil, err
	}
	return resourcelock.NewFromKubeconfig(c.ResourceLock, cmp.Or(c.ResourceNamespace, o.Namespace), cmp.Or(c.ResourceName, o.ServiceAccount),
		resourcelock.ResourceLockConfig{Identity: identity}, client, c.RenewDeadline.Duration)
}

// identity is what this process calls itself in the lease. A container that is
// started again in the same pod goes on at once.
func identity() (string, error) {
	if pod := os.Getenv(podName); pod != "" {
		return pod, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("learn the name of this host: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// lead waits until the lease is this process's, and calls work. The context of
// work ends with ctx, or when the lease is lost, which is an error. The lease
// is given back after work has returned, so that no two processes ever work.
func lead(ctx context.Context, lock resourcelock.Interface, c componentconfig.LeaderElectionConfiguration, watchdog *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	electing, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   c.LeaseDuration.Duration,
		RenewDeadline:   c.RenewDeadline.Duration,
		RetryPeriod:     c.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Name:            "federation-controllers",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { leading <- term },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("prepare the election of a leader: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	select {
	case <-ctx.Done():
	case term := <-leading:
		working, stop := context.WithCancel(term)
		disarm := context.AfterFunc(ctx, stop)
		work(working)
		disarm()
		stop()
	}
	giveBack()
	<-ended
	if ctx.Err() == nil {
		return fmt.Errorf("the lease %s was lost: another process has it, or this cluster's API did not answer for %s", lock.Describe(), c.RenewDeadline.Duration)
	}
	return nil
}
