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

// Condition looks once. It returns whether what is waited for has come, and
// what it saw, for the reader of a failure. An error is seen as well: it is
// looked at again, unless it is Permanent.
type Condition func(ctx context.Context) (done bool, saw string, err error)

// Permanent marks an error of a Condition that waiting cannot heal.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Eventually looks until the condition is true, and fails after timeout with
// what was waited for and what was seen last.
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
			// What was seen before the deadline cut the look short says more.
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

// blind is how long Consistently goes on when it cannot look.
const blind = 10 * time.Second

// Consistently looks for as long as period, and fails as soon as the condition
// is not true. Errors are no answer: it fails when they last, or one is Permanent.
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
