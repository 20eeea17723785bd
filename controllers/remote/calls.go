// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Calls limits the concurrent calls to one peer. After a call timed out, it permits one call at a time, until a call is
// answered, so that a peer that does not respond occupies one worker.
type Calls struct {
	// begun has an element for each call that has not ended yet.
	begun chan struct{}

	mu sync.Mutex
	// late is true after a call timed out, until a call is answered.
	late bool
}

// NewCalls returns a limit of this number of concurrent calls.
func NewCalls(limit int) *Calls { return &Calls{begun: make(chan struct{}, limit)} }

// begin waits until fewer than the maximum number of calls wait for their responses, for at most callTimeout. After a
// call timed out, it does not wait. It fails with ErrBusy, or if the context ends.
func (c *Calls) begin(ctx context.Context) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late && len(c.begun) > 1 {
		<-c.begun
		return ErrBusy
	}
	return nil
}

func (c *Calls) wait(ctx context.Context) error {
	select {
	case c.begun <- struct{}{}:
		return nil
	default:
	}
	if c.isLate() {
		return ErrBusy
	}
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case c.begun <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrBusy
	}
}

func (c *Calls) isLate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// end ends a call with its error, which is nil if the peer answered. An error other than the timeout for responses does
// not change how many calls are permitted, for example that of a peer that refuses connections.
func (c *Calls) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errResponseTimeout):
		c.late = true
	case err == nil:
		c.late = false
	}
	<-c.begun
}
