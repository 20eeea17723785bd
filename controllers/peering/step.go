// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// pass is one look at a ForeignCluster.
type pass struct {
	// fc is what steps change: its status, or, and then they stop, its
	// metadata or spec.
	fc *v1alpha1.ForeignCluster
	// now is the time of the pass.
	now time.Time
	// networking is how the pods of both clusters reach each other, where fc does
	// not say.
	networking v1alpha1.NetworkingMode
	// identity is how this cluster's identity at the provider stands, and
	// tenant how the consumer's identity here does. Nil says nothing is wanted.
	identity, tenant *verdict
	// unready says why a peering that is established is of no use right now.
	unready *verdict
}

// verdict is how something stands and why.
type verdict struct {
	phase           v1alpha1.PeeringPhase
	reason, message string
}

// outcome is what a step says to the ones behind it.
type outcome struct {
	// stop keeps the steps behind from running in this pass: something has to
	// happen first.
	stop bool
	// after is when to look again even if nothing happens; zero is never.
	after time.Duration
}

var (
	goOn = outcome{}
	wait = outcome{stop: true}
)

// waitAtMost stops, and looks again after a while.
func waitAtMost(after time.Duration) outcome { return outcome{stop: true, after: after} }

// step makes one part of a peering true.
type step interface {
	reconcile(ctx context.Context, p *pass) (outcome, error)
}

// run takes steps in order until one stops or fails.
func run(ctx context.Context, p *pass, steps []step) (time.Duration, error) {
	var after time.Duration
	for _, s := range steps {
		out, err := s.reconcile(ctx, p)
		after = sooner(after, out.after)
		if err != nil {
			return after, err
		}
		if out.stop {
			break
		}
	}
	return after, nil
}

// sooner is the shorter of two durations, where zero is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
