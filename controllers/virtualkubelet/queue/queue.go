// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue has a controller with a number of workers that reconcile keys, and retry failed keys with exponential
// backoff.
package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// A failed key is retried after minDelay. The delay doubles with each failure, up to maxDelay.
	minDelay = 100 * time.Millisecond
	maxDelay = 30 * time.Second
	// timeout is the timeout of a reconcile, with all its requests to the local cluster and to the provider.
	timeout = time.Minute
)

// Reconcile reconciles the object with a key. It returns the time after which the key is reconciled again; zero means
// that only an event enqueues it. If it fails, the time is ignored and the key is retried with exponential backoff.
type Reconcile[K comparable] func(ctx context.Context, key K) (time.Duration, error)

// Controller reconciles the keys that Add and AddAfter enqueue.
type Controller[K comparable] struct {
	// TypedRateLimitingInterface is the queue. Tests read it, or replace it with one that has a fake clock.
	workqueue.TypedRateLimitingInterface[K]
	name      string
	workers   int
	reconcile Reconcile[K]
}

// New returns a controller, which starts with Run. The name appears in logs.
func New[K comparable](name string, workers int, reconcile Reconcile[K]) *Controller[K] {
	return &Controller[K]{
		name:      name,
		workers:   workers,
		reconcile: reconcile,
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](minDelay, maxDelay),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: name}),
	}
}

// Run reconciles enqueued keys until the context ends, and returns after the last worker.
func (c *Controller[K]) Run(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), c.name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Controller started", "workers", c.workers)
	defer logger.Info("Controller stopped")

	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for c.Next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.ShutDown()
	workers.Wait()
}

func (c *Controller[K]) reconcileWithin(ctx context.Context, key K) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.reconcile(ctx, key)
}

// Next waits for an enqueued key and reconciles it. It reports whether the queue was open. Run calls it; tests may call
// it instead of Run.
func (c *Controller[K]) Next(ctx context.Context) bool {
	key, shutdown := c.Get()
	if shutdown {
		return false
	}
	defer c.Done(key)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "key", fmt.Sprint(key))
	after, err := c.reconcileWithin(klog.NewContext(ctx, logger), key)
	switch {
	case err == nil:
		c.Forget(key)
		if after > 0 {
			c.AddAfter(key, after)
		}
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		// Another client updated the object first; its update reaches the cache soon.
		logger.V(4).Info("Reconciling again after a conflict", "reason", err.Error())
		c.AddRateLimited(key)
	default:
		logger.Error(err, "Reconciling failed, retrying", "failures", c.NumRequeues(key)+1)
		c.AddRateLimited(key)
	}
	return true
}
