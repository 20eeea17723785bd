// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/probe"
)

const (
	// leaseDuration is how long a Lease that nobody renews belongs to a holder
	// that was never heard of.
	leaseDuration = 15 * time.Second
	// renewal is how often the holder renews it.
	renewal = 5 * time.Second
	// One that does not bring its node to what it should be leaves the Lease to
	// others for so long. It renews it sooner than others like it take it, so that
	// these do not take turns, and sooner than this cluster's controllers miss it.
	unableRenews = 2 * leaseDuration
	unableTakes  = 3 * leaseDuration
	// askEvery is how often one that stands by asks the active one, and
	// mayMiss how many answers in a row may be missing.
	askEvery = 250 * time.Millisecond
	mayMiss  = 5
	// askAgain is when one is asked again on whose node nobody listens: no
	// answer is on its way any more.
	askAgain = 50 * time.Millisecond
	// writePatience bounds a request about the Lease.
	writePatience = 3 * time.Second
)

// Election finds out which gateway is the active one. The Lease only arbitrates
// between those who want to be: whether the active one is alive is asked of
// itself. Whoever is active stays so while the API server is away, as nobody
// else can take the Lease then.
type Election struct {
	// Self is the node of this gateway.
	Self   string
	Leases coordinationclient.LeaseInterface
	// Ask asks the gateway on a node whether it is alive, and takes no longer
	// than it is told. An error is that it did not answer, probe.ErrRefused
	// that nobody listens there.
	Ask func(ctx context.Context, node string, patience time.Duration) error
	// Able tells whether this gateway brings its node to what it should be. One
	// that does not leaves the Lease to one that does. Where none does, as by
	// something that all nodes lack, one of them has it all the same.
	Able func() bool
	// Changed is called when another gateway is the active one.
	Changed func()
	Clock   clock.Clock

	mu     sync.Mutex
	lease  *coordinationv1.Lease // the newest that was seen; nil if there is none
	active string                // the last one that held it
	since  time.Time             // when the Lease was last seen to change
	// answered tells whether the holder has ever answered here since it held the
	// Lease, missed how many times it did not since then.
	answered bool
	missed   int
	handed   chan struct{} // the Lease has another holder, or none
}

// NewElection makes an election that is told of each state of the Lease.
func NewElection(self string, leases coordinationclient.LeaseInterface, ask func(context.Context, string, time.Duration) error, able func() bool, changed func()) *Election {
	return &Election{Self: self, Leases: leases, Ask: ask, Able: able, Changed: changed, Clock: clock.RealClock{}, handed: make(chan struct{}, 1)}
}

// Active is the node of the gateway that is active, or was the last one; empty
// before there was one.
func (e *Election) Active() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active
}

// Observe takes notice of a state of the Lease; nil: there is none.
func (e *Election) Observe(lease *coordinationv1.Lease) {
	e.mu.Lock()
	if older(lease, e.lease) {
		e.mu.Unlock()
		return
	}
	before, held := e.active, holder(e.lease)
	e.lease, e.since = lease, e.Clock.Now()
	if now := holder(lease); now != held {
		e.answered, e.missed = false, 0
		if now != "" {
			e.active = now
		}
		select {
		case e.handed <- struct{}{}:
		default:
		}
	}
	changed := e.active != before
	e.mu.Unlock()
	if changed {
		e.Changed()
	}
}

// older tells whether a state of the Lease comes before another one.
func older(lease, known *coordinationv1.Lease) bool {
	if lease == nil || known == nil || lease.UID != known.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, known.ResourceVersion)
	return err == nil && order < 0
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// action is what a gateway does next about the Lease.
type action string

const (
	ask   action = "ask" // the holder whether it is alive
	renew action = "renew"
	take  action = "take"
	leave action = "leave" // it to others, for now
)

// next tells what to do. One that was heard of and is silent now is dead. One
// that was never heard of may be alive and out of reach from here, as one that
// took the Lease from us: it keeps the Lease while it renews it. That keeps two
// gateways which cannot reach each other from taking turns. One that is not able
// waits for somebody else to do either, and asks meanwhile.
func (e *Election) next(able bool) (action, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, lies := holder(e.lease), e.Clock.Since(e.since)
	dead := e.missed >= mayMiss && (e.answered || lies > leaseDuration)
	switch {
	case held == e.Self && (able || lies > unableRenews):
		return renew, held
	case held != e.Self && (held == "" || dead) && (able || lies > unableTakes):
		return take, held
	case held == e.Self || held == "":
		return leave, held
	}
	return ask, held
}

// Run takes part until the context ends. The Lease has to be observed before.
func (e *Election) Run(ctx context.Context) {
	e.mu.Lock()
	if e.since.IsZero() {
		e.since = e.Clock.Now() // it is missed since now
	}
	e.mu.Unlock()
	for ctx.Err() == nil {
		wait := askEvery
		switch do, held := e.next(e.Able()); do {
		case ask:
			began := e.Clock.Now()
			err := e.Ask(ctx, held, askEvery)
			e.heard(held, err == nil)
			if errors.Is(err, probe.ErrRefused) {
				wait = askAgain
			}
			wait -= e.Clock.Since(began)
		case renew, take:
			if err := e.write(ctx, e.Self); err == nil {
				wait = renewal
			} else if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "The gateways' Lease was not written", "lease", agent.GatewayName, "to", do)
				wait = time.Second
			}
		}
		timer := e.Clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-e.handed:
		}
		timer.Stop()
	}
}

// heard notes whether the holder has answered.
func (e *Election) heard(node string, answered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case holder(e.lease) != node:
	case answered:
		e.answered, e.missed = true, 0
	default:
		e.missed++
	}
}

// write puts a holder into the Lease, unless it is another one by now than was
// observed.
func (e *Election) write(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	e.mu.Lock()
	known := e.lease
	e.mu.Unlock()
	now := metav1.NewMicroTime(e.Clock.Now())
	var written *coordinationv1.Lease
	var err error
	if known == nil {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: agent.GatewayName}}
		hold(lease, to, now)
		written, err = e.Leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease := known.DeepCopy()
		hold(lease, to, now)
		written, err = e.Leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		e.Observe(written)
		return nil
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		found, getErr := e.Leases.Get(ctx, agent.GatewayName, metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) {
			e.Observe(nil)
		} else if getErr == nil {
			e.Observe(found)
		}
	}
	return fmt.Errorf("writing Lease %s: %w", agent.GatewayName, err)
}

func hold(lease *coordinationv1.Lease, who string, now metav1.MicroTime) {
	if holder(lease) != who {
		lease.Spec.AcquireTime = &now
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &who, &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
}

// Release gives the Lease up, for one that stands by to take it at once, and
// waits until one has or the context ends. One may have taken it already. Run has
// to have ended before.
func (e *Election) Release(ctx context.Context) error {
	for {
		e.mu.Lock()
		mine := holder(e.lease) == e.Self
		e.mu.Unlock()
		if !mine {
			return nil
		}
		err := e.write(ctx, "")
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	for e.Active() == e.Self {
		select {
		case <-ctx.Done():
			return fmt.Errorf("lease %s was given up and nobody has taken it: %w", agent.GatewayName, ctx.Err())
		case <-e.handed:
		}
	}
	return nil
}
