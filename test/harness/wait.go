// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const pollInterval = 100 * time.Millisecond

// Condition checks once. It reports whether the condition holds, and what it observed, for messages.
// Errors are retried unless they are Permanent.
type Condition func(ctx context.Context) (done bool, saw string, err error)

// Permanent marks an error of a Condition that is not retried.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Eventually polls until the condition holds. After timeout it fails with the last observation.
func Eventually(ctx context.Context, timeout time.Duration, what string, condition Condition) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "nothing yet"
	for {
		done, saw, err := condition(ctx)
		switch {
		case errors.As(err, new(permanentError)):
			return fmt.Errorf("waiting for %s: %w", what, err)
		case err == nil && done:
			return nil
		case ctx.Err() != nil:
			// The observation before the deadline is more informative.
		case err != nil:
			last = "error: " + err.Error()
		default:
			last = saw
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s; last seen: %s (%w)", time.Since(start).Round(time.Second), what, last, ctx.Err())
		case <-ticker.C:
		}
	}
}

// blind is how long Consistently retries errors.
const blind = 10 * time.Second

// Consistently polls for a period, and fails as soon as the condition does not hold. It also fails on
// errors that last, or are Permanent.
func Consistently(ctx context.Context, period time.Duration, what string, condition Condition) error {
	deadline := time.NewTimer(period)
	defer deadline.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	start := time.Now()
	looked := start
	for {
		ok, saw, err := condition(ctx)
		switch {
		case err == nil:
			looked = time.Now()
		case errors.As(err, new(permanentError)) || time.Since(looked) > blind:
			return fmt.Errorf("%s, after %s: %w", what, time.Since(start).Round(time.Second), err)
		}
		if err == nil && !ok {
			return fmt.Errorf("%s: no longer true after %s; seen: %s", what, time.Since(start).Round(time.Second), saw)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-deadline.C:
			return nil
		case <-ticker.C:
		}
	}
}
