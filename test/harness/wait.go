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

// Condition is a check that is repeated until it succeeds. It reports whether the condition holds
// and what was observed, for failure messages. Errors are retried, unless they are Permanent.
type Condition func(ctx context.Context) (done bool, saw string, err error)

// Permanent marks an error so that Eventually and Consistently do not retry it.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Eventually repeats the check until the condition holds. It fails with the last observation after
// timeout.
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
			// An error that the timeout causes is less informative than the previous observation,
			// which is kept.
		case err != nil:
			last = "error: " + err.Error()
		default:
			last = saw
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s; last seen: %s (%w)", time.Since(start).Round(time.Second), what,
				last, ctx.Err())
		case <-ticker.C:
		}
	}
}

// blind is the time for which Consistently retries errors.
const blind = 10 * time.Second

// Consistently repeats the check for a period. It fails as soon as the condition does not hold,
// after errors that last longer than blind, and on Permanent errors.
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
