// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"time"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// Pass is the state of one reconcile of a ForeignCluster. All steps read and change it.
type Pass struct {
	// ForeignCluster is a copy that steps change, and that is written after the last step. A step
	// that changes its metadata or spec, instead of the status, returns Wait.
	ForeignCluster *v1alpha1.ForeignCluster
	// Now is the time when the reconcile began.
	Now time.Time
	// Networking applies if the ForeignCluster does not set spec.networking.
	Networking v1alpha1.NetworkingMode
	// Installation has the values that determine status.policies.
	Installation trust.Installation
	// Identity is the state of this cluster's identity at the provider, and Tenant the state of the
	// consumer's identity at this cluster. Steps set them; nil means that the outgoing or incoming
	// direction, respectively, is disabled.
	Identity, Tenant *Verdict
	// Unready is the reason why an established peering cannot be used at present. Its Phase is
	// unused. Nil means that the peering can be used.
	Unready *Verdict
}

// Verdict is a phase, with the reason and message for the condition.
type Verdict struct {
	Phase           v1alpha1.PeeringPhase
	Reason, Message string
}

// Outcome is the result of a step that did not fail.
type Outcome struct {
	// Stop is true if the remaining steps of the direction are skipped in this reconcile.
	Stop bool
	// After is the time until the next reconcile if no event triggers one before; zero means that
	// only events trigger one.
	After time.Duration
}

var (
	// Continue is the outcome of a step that is followed by the next one.
	Continue = Outcome{}
	// Wait is the outcome of a step that waits for an event.
	Wait = Outcome{Stop: true}
)

// WaitAtMost returns the outcome of a step that waits for an event, but no longer than a duration.
func WaitAtMost(after time.Duration) Outcome { return Outcome{Stop: true, After: after} }

// Step is one part of a direction of a peering.
type Step interface {
	// Reconcile establishes this part of the direction, or removes it if the direction is disabled.
	// After an error, the remaining steps of the direction are skipped in this reconcile.
	Reconcile(ctx context.Context, p *Pass) (Outcome, error)
}

// run runs the steps in order until one stops or fails. It returns the shortest time until the next
// reconcile that a step set; zero if none did.
func run(ctx context.Context, p *Pass, steps []Step) (time.Duration, error) {
	var after time.Duration
	for _, step := range steps {
		out, err := step.Reconcile(ctx, p)
		after = kit.Sooner(after, out.After)
		if err != nil {
			return after, err
		}
		if out.Stop {
			break
		}
	}
	return after, nil
}
