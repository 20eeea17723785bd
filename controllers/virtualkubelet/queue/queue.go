// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue runs the workers of a controller: they reconcile keys, and retry with growing delays
// those that failed.
package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/metrics"
)

// The delay between two tries of one key doubles from minDelay to maxDelay.
const (
	minDelay = 50 * time.Millisecond
	maxDelay = 30 * time.Second
)

// Reconcile makes what a key names true. The duration says when to look again
// even if nothing happens; zero means not before something does. With an error
// the duration is ignored and the key is tried again after a delay that grows
// with each failure.
type Reconcile[K comparable] func(ctx context.Context, key K) (time.Duration, error)

// Controller reconciles the keys that are added to it.
type Controller[K comparable] struct {
	name      string
	workers   int
	reconcile Reconcile[K]
	queue     workqueue.TypedRateLimitingInterface[K]
}

// New makes a controller whose name appears in logs and metrics.
func New[K comparable](name string, workers int, reconcile Reconcile[K]) *Controller[K] {
	return &Controller[K]{
		name:      name,
		workers:   workers,
		reconcile: reconcile,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](minDelay, maxDelay),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: name}),
	}
}

// Add wants a key reconciled soon.
func (c *Controller[K]) Add(key K) { c.queue.Add(key) }

// AddAfter wants a key reconciled after a while. Keys that come several times
// until then are reconciled once.
func (c *Controller[K]) AddAfter(key K, after time.Duration) { c.queue.AddAfter(key, after) }

// Run works until the context ends, and returns when the last worker has.
func (c *Controller[K]) Run(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), c.name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Controller started", "workers", c.workers)
	defer logger.Info("Controller stopped")

	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}

func (c *Controller[K]) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "key", fmt.Sprint(key))
	start := time.Now()
	after, err := c.reconcile(klog.NewContext(ctx, logger), key)
	metrics.ObserveReconcile(c.name, time.Since(start), err)
	switch {
	case err == nil:
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		// Another client wrote first; the cache receives its write in a moment.
		logger.V(4).Info("Reconciling again after a conflict", "reason", err.Error())
		c.queue.AddRateLimited(key)
	default:
		logger.Error(err, "Reconciling failed, retrying", "failures", c.queue.NumRequeues(key)+1)
		c.queue.AddRateLimited(key)
	}
	return true
}
