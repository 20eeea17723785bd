// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader lets one of several processes work, by a Lease.
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

// PodName is the environment variable that a pod's container knows its pod by.
const PodName = "POD_NAME"

// ErrLost is what Lead returns, among other words, when the lease was lost.
var ErrLost = errors.New("another process has it, or this cluster's API did not answer")

// Terms are those of a lease.
type Terms struct {
	// Name appears in the metrics of the library.
	Name string
	// The lease is renewed every Retry. When that fails it is tried again for
	// Renew, after which a process that is cut off stops working: Retry and Renew
	// together are less than Lease, after which another one may start. One that
	// waits looks about every Retry, and twice that at most.
	Lease, Renew, Retry time.Duration
	// Watchdog is told of each renewal; nil: nobody asks.
	Watchdog *leaderelection.HealthzAdaptor
}

// Identity is what this process calls itself in a lease. A container that is
// started again in the same pod goes on at once.
func Identity() (string, error) {
	if pod := os.Getenv(PodName); pod != "" {
		return pod, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("learn the name of this host: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// Lead waits until the lease is this process's, and calls work. The context of
// work ends with ctx, or when the lease is lost, which is ErrLost. The lease is
// given back after work has returned, and only if it was not lost: nobody else
// has it while this process works. Work that returns by itself ends it as well,
// without an error.
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
			giveBack(ctx, lock, t.Renew)
		case ctx.Err() == nil:
			return fmt.Errorf("the lease %s was lost: %w for %s", lock.Describe(), ErrLost, t.Renew)
		}
	}
	return nil
}

// giveBack lets the next process begin at once. The library would do so while
// work still runs.
func giveBack(ctx context.Context, lock resourcelock.Interface, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err == nil && held.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: held.LeaderTransitions,
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The lease was not given back: the next process waits until it runs out", "lease", lock.Describe())
	}
}
