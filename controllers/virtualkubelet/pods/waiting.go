// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	// triedAtOnce is how many waiting pods are tried when the provider may have room. Each that fits
	// has as many others tried, so that room is used up however many wait, and one small pod that ends
	// does not cause thousands of requests.
	triedAtOnce = 4
	// tryPause is the least time between two such tries: where none of the waiting pods fits, pods that
	// come and go cost few requests.
	tryPause = 100 * time.Millisecond
)

// roomFreed tries some of the pods that wait for it again. The others, and those of other virtual nodes,
// are retried with backoff.
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

// accepted tries others after a waiting pod was accepted: there may be room for them too.
func (c *Controller) accepted(key cache.ObjectName) {
	for reason := range blockReasons {
		if c.states.unblock(key, reason) {
			c.tryBlocked(reason, 0)
		}
	}
}
