// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"time"
)

// atOnce is the rate limiter of the pod controller's queues: their work is to
// hand on, or a patch that is wanted now. The limiters they come with let ten
// items a second pass.
type atOnce struct{}

// When is now.
func (atOnce) When(any) time.Duration { return 0 }

// Forget does nothing: there is nothing to remember.
func (atOnce) Forget(any) {}

// NumRequeues is always zero.
func (atOnce) NumRequeues(any) int { return 0 }

// retry tries again for ever, ever more slowly: the pod controller by itself
// gives up.
func retry(_ context.Context, _ string, tried int, _ time.Time, _ error) (*time.Duration, error) {
	delay := lastRetry
	if tried < 9 {
		delay = min(firstRetry<<tried, lastRetry)
	}
	return &delay, nil
}
