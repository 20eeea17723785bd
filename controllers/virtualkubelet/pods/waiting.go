// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	// triedAtOnce is the maximum number of blocked pods that are retried when a shadow pod releases quota, or when a
	// finished one is deleted. Each retried pod that is accepted causes as many further retries, so that all released
	// quota is used, but a small release does not cause thousands of requests.
	triedAtOnce = 4
	// tryPause is the minimum time between two such retries. It bounds the number of requests while no blocked pod fits.
	// The retries that an accepted pod causes are immediate.
	tryPause = 100 * time.Millisecond
)

// roomFreed enqueues at most triedAtOnce of the pods that are blocked for the reason, with a delay that keeps tryPause.
// All other blocked pods, also of other virtual nodes, are retried with backoff.
func (c *Controller) roomFreed(reason blockReason) {
	if after, ok := c.states.nextTry(reason, c.Clock.Now()); ok {
		c.tryBlocked(reason, after)
	}
}

func (c *Controller) tryBlocked(reason blockReason, after time.Duration) {
	for _, key := range c.states.someBlocked(reason, triedAtOnce) {
		c.queue.AddAfter(key, after)
	}
}

// accepted unblocks a pod that the provider accepted. For each reason for which the pod was blocked, it enqueues at
// most triedAtOnce other pods that are blocked for the same reason, because they may be accepted too.
func (c *Controller) accepted(key cache.ObjectName) {
	for reason := range blockReasons {
		if c.states.unblock(key, reason) {
			c.tryBlocked(reason, 0)
		}
	}
}
