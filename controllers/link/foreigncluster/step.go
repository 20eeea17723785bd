// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"time"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Pass is one pass over a ForeignCluster, which its steps share.
type Pass struct {
	// ForeignCluster is what steps change: its status or, after which they stop the pass,
	// its metadata or spec.
	ForeignCluster *v1alpha1.ForeignCluster
	// Now is the time of the pass.
	Now time.Time
	// Networking applies to a ForeignCluster that does not set it.
	Networking v1alpha1.NetworkingMode
	// Identity is the state of this cluster's identity at the provider, Tenant the state of the
	// consumer's identity at this cluster. Nil means that the direction is disabled.
	Identity, Tenant *Verdict
	// Unready is why an established peering cannot be used at present; its phase is empty.
	Unready *Verdict
}

// Verdict is a state and the reason for it.
type Verdict struct {
	Phase           v1alpha1.PeeringPhase
	Reason, Message string
}

// Outcome is what a step returns to the pass.
type Outcome struct {
	// Stop keeps the following steps from this pass: something has to happen first.
	Stop bool
	// After is when the next pass begins even if nothing changes; zero means never.
	After time.Duration
}

var (
	// Continue is the outcome of a step that is followed by the next one.
	Continue = Outcome{}
	// Wait is the outcome of a step that waits for a change.
	Wait = Outcome{Stop: true}
)

// WaitAtMost returns the outcome of a step that waits for a change, or for a time.
func WaitAtMost(after time.Duration) Outcome { return Outcome{Stop: true, After: after} }

// Step is one part of a direction of a peering.
type Step interface {
	// Reconcile establishes the part, or removes it where the direction is disabled. An
	// error ends the steps of the direction in this pass.
	Reconcile(ctx context.Context, p *Pass) (Outcome, error)
}

// run takes steps in order until one stops or fails.
func run(ctx context.Context, p *Pass, steps []Step) (time.Duration, error) {
	var after time.Duration
	for _, step := range steps {
		out, err := step.Reconcile(ctx, p)
		after = sooner(after, out.After)
		if err != nil {
			return after, err
		}
		if out.Stop {
			break
		}
	}
	return after, nil
}

// sooner returns the shorter of two durations of which zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
