// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// slowCall is the duration above which a call makes its peer slow, for slowFor.
	slowCall = 5 * time.Second
	slowFor  = time.Hour
	// maxSlowCalls is the maximum number of concurrent calls to all slow peers together. It is half of
	// kit.PeerWorkers, so that slow peers leave half of the workers of each controller to other peers.
	maxSlowCalls = 16
)

// slowCalls has an element for each call to a slow peer that has not ended yet.
var slowCalls = make(chan struct{}, maxSlowCalls)

// Calls limits the concurrent calls to one peer. After a call timed out, it permits one call at a time, until a call is
// answered, so that a peer that does not respond occupies one worker. After a call that took longer than slowCall, the
// peer has at most maxSlowCalls together with other such peers, so that peers which delay their responses do not occupy
// all workers.
type Calls struct {
	// begun has an element for each call that has not ended yet.
	begun chan struct{}

	mu sync.Mutex
	// late is true after a call timed out, until a call is answered.
	late bool
	// slowUntil is the time until which the peer is slow.
	slowUntil time.Time
}

// NewCalls returns a limit of this number of concurrent calls.
func NewCalls(limit int) *Calls { return &Calls{begun: make(chan struct{}, limit)} }

// begin waits until fewer than the maximum number of calls wait for their responses, for at most callTimeout. It does
// not wait after a call timed out, or for calls to other slow peers. It fails with ErrBusy, or if the context ends. The
// function that it returns must be called once, when the call ends, with the error of the call: nil if the peer
// answered.
func (c *Calls) begin(ctx context.Context) (end func(error), err error) {
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	late, slow := c.state()
	if late && len(c.begun) > 1 || slow && !beginSlow() {
		<-c.begun
		return nil, ErrBusy
	}
	return func(err error) {
		c.observe(err, time.Since(start))
		if slow {
			<-slowCalls
		}
		<-c.begun
	}, nil
}

// beginSlow begins a call to a slow peer; false if the maximum number of them has begun.
func beginSlow() bool {
	select {
	case slowCalls <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *Calls) wait(ctx context.Context) error {
	select {
	case c.begun <- struct{}{}:
		return nil
	default:
	}
	if late, _ := c.state(); late {
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

func (c *Calls) state() (late, slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late, time.Now().Before(c.slowUntil)
}

// observe records how a call ended, and its duration. An error other than the timeout for responses does not change how
// many calls are permitted, for example that of a peer that refuses connections.
func (c *Calls) observe(err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errResponseTimeout):
		c.late = true
	case err == nil:
		c.late = false
	}
	if took > slowCall {
		c.slowUntil = time.Now().Add(slowFor)
	}
}
