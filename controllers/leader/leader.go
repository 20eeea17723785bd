// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader elects one of several processes with a Lease.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// PodName is the environment variable with the name of the pod.
const PodName = "POD_NAME"

// ErrLost is wrapped by the error that Lead returns if the lease was lost.
var ErrLost = errors.New("another process holds it, or this cluster's API server was unreachable")

// Terms are the timing of a leader election.
type Terms struct {
	// Name is the name of the election in the metrics of client-go.
	Name string
	// The leader renews the lease every Retry, and stops work when it could not renew the lease for Renew. Another process
	// can acquire the lease when it was not renewed for Lease, so Retry and Renew together must be less than Lease. A
	// standby tries to acquire the lease every 1 to 2.2 times Retry.
	Lease, Renew, Retry time.Duration
	// Watchdog observes renewals for a health check. It may be nil.
	Watchdog *leaderelection.HealthzAdaptor
	// Standby is called each time this process observes a new leader that is another process. It may be nil.
	Standby func()
}

// Identity returns the identity of this process in a lease: the name of the pod, so that a restarted container
// continues at once, or otherwise a unique name. It fails if the name of the host cannot be read.
func Identity() (string, error) {
	if pod := os.Getenv(PodName); pod != "" {
		return pod, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("reading the name of this host: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// Lead acquires the lease, calls work, and releases the lease after work has returned, so that no two processes work at
// the same time. It returns when work does. The context of work ends with ctx or when the lease is lost; in the latter
// case Lead fails with ErrLost.
func Lead(ctx context.Context, lock resourcelock.Interface, t Terms, work func(context.Context)) error {
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElecting()
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: t.Lease,
		RenewDeadline: t.Renew,
		RetryPeriod:   t.Retry,
		WatchDog:      t.Watchdog,
		Name:          t.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { leading <- term },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if t.Standby != nil && identity != lock.Identity() {
					t.Standby()
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("creating the leader elector: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	select {
	case <-ctx.Done():
		stopElecting()
		<-ended
		return nil
	case term := <-leading:
		working, stop := context.WithCancel(term)
		disarm := context.AfterFunc(ctx, stop)
		work(working)
		lost := term.Err() != nil
		disarm()
		stop()
		stopElecting()
		<-ended
		switch {
		case !lost:
			release(ctx, lock, t.Renew)
		case ctx.Err() == nil:
			return fmt.Errorf("the lease %s was lost: %w for %s", lock.Describe(), ErrLost, t.Renew)
		}
	}
	return nil
}

// release releases the lease within timeout, so that a standby can acquire it at once. ReleaseOnCancel of client-go
// would release it before work has returned.
func release(ctx context.Context, lock resourcelock.Interface, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err == nil && held.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: held.LeaderTransitions,
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Releasing the lease failed: the next leader waits until it expires",
			"lease", lock.Describe())
	}
}
