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
	// leaseDuration is the time without a renewal after which the Lease of a holder that never replied to a probe
	// expires.
	leaseDuration = 15 * time.Second
	// renewInterval is the interval at which the holder renews the Lease.
	renewInterval = 5 * time.Second
	// unhealthyRenewal is the time that an unhealthy holder waits before it renews the Lease, and unhealthyAcquire the
	// time that an unhealthy standby gateway waits before it acquires the Lease. Renewal is sooner, so that unhealthy
	// gateways do not alternate. It is also sooner than the 40 seconds after which the controllers report the Lease as
	// expired.
	unhealthyRenewal = 2 * leaseDuration
	unhealthyAcquire = 3 * leaseDuration
	// holderProbeInterval is the interval at which standby gateways probe the holder. After maxMissed consecutive
	// failures the holder counts as dead.
	holderProbeInterval = 250 * time.Millisecond
	maxMissed           = 5
	// refusedRetry replaces holderProbeInterval after a refused probe: a refusal means that no gateway listens, so that
	// there is no late reply to wait for.
	refusedRetry = 50 * time.Millisecond
	// writeTimeout bounds one write of the Lease.
	writeTimeout = 3 * time.Second
)

// Election determines the active gateway, which holds the Lease. Standby gateways probe the holder, and acquire
// the Lease once it does not reply. The holder stays active during an outage of the API server, as no other
// gateway can acquire the Lease then.
type Election struct {
	// Self is the node of this gateway, and its identity in the Lease.
	Self   string
	Leases coordinationclient.LeaseInterface
	// Probe probes the gateway on a node. It fails if there is no reply within the timeout, with probe.ErrRefused
	// if no gateway listens on the node.
	Probe func(ctx context.Context, node string, timeout time.Duration) error
	// Healthy reports whether this gateway can configure its node. An unhealthy gateway leaves the Lease to a
	// healthy one. If all gateways are unhealthy, for example by a cause common to all nodes, one of them holds
	// the Lease nevertheless.
	Healthy func() bool
	// OnChange is called when the Lease has a new holder, which may be this gateway.
	OnChange func()
	Clock    clock.Clock

	mu     sync.Mutex
	lease  *coordinationv1.Lease // latest observed version; nil if there is no Lease
	active string                // holder of the Lease, or its last holder if it has none
	since  time.Time             // time of the last observed change of the Lease
	// answered is set if the holder has replied to a probe since it acquired the Lease. missed counts the probes
	// that failed since the last reply.
	answered      bool
	missed        int
	holderChanged chan struct{} // signals that the Lease has another holder, or none
}

// NewElection returns an election. The caller must call Observe with each version of the Lease.
func NewElection(
	self string,
	leases coordinationclient.LeaseInterface,
	probeHolder func(context.Context, string, time.Duration) error,
	healthy func() bool,
	onChange func(),
) *Election {
	return &Election{
		Self:          self,
		Leases:        leases,
		Probe:         probeHolder,
		Healthy:       healthy,
		OnChange:      onChange,
		Clock:         clock.RealClock{},
		holderChanged: make(chan struct{}, 1),
	}
}

// Active returns the node of the active gateway; the last one if the Lease has no holder, and empty if it never
// had one.
func (e *Election) Active() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active
}

// Observe processes a version of the Lease; nil means that the Lease does not exist. It ignores a version older
// than the last one.
func (e *Election) Observe(lease *coordinationv1.Lease) {
	e.mu.Lock()
	if isOlder(lease, e.lease) {
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
		case e.holderChanged <- struct{}{}:
		default:
		}
	}
	changed := e.active != before
	e.mu.Unlock()
	if changed {
		e.OnChange()
	}
}

// isOlder reports whether a version of the Lease precedes another one.
func isOlder(lease, current *coordinationv1.Lease) bool {
	if lease == nil || current == nil || lease.UID != current.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, current.ResourceVersion)
	return err == nil && order < 0
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// action is the next step of an election.
type action string

const (
	probeHolder action = "probe" // probe the holder
	renew       action = "renew"
	acquire     action = "acquire"
	yield       action = "yield" // leave the Lease to other gateways for now
)

// next returns the next action, and the holder. A holder that has replied before and misses maxMissed probes is
// dead. A holder that never replied may be alive but unreachable from this node, and keeps the Lease until it
// expires: otherwise two gateways that cannot reach each other would alternate. An unhealthy gateway renews and
// acquires the Lease later than a healthy one.
func (e *Election) next(healthy bool) (action, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	current, unchanged := holder(e.lease), e.Clock.Since(e.since)
	dead := e.missed >= maxMissed && (e.answered || unchanged > leaseDuration)
	switch {
	case current == e.Self && (healthy || unchanged > unhealthyRenewal):
		return renew, current
	case current != e.Self && (current == "" || dead) && (healthy || unchanged > unhealthyAcquire):
		return acquire, current
	case current == e.Self || current == "":
		return yield, current
	}
	return probeHolder, current
}

// Run participates in the election until the context ends. Before Run, call Observe with the initial state of the
// Lease.
func (e *Election) Run(ctx context.Context) {
	e.mu.Lock()
	if e.since.IsZero() {
		e.since = e.Clock.Now() // the Lease counts as missing from now on
	}
	e.mu.Unlock()
	for ctx.Err() == nil {
		wait := holderProbeInterval
		switch do, current := e.next(e.Healthy()); do {
		case probeHolder:
			began := e.Clock.Now()
			err := e.Probe(ctx, current, holderProbeInterval)
			e.recordProbe(current, err == nil)
			if errors.Is(err, probe.ErrRefused) {
				wait = refusedRetry
			}
			wait -= e.Clock.Since(began)
		case renew, acquire:
			if err := e.write(ctx, e.Self); err == nil {
				wait = renewInterval
			} else if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Writing the gateways' Lease failed", "lease", agent.GatewayName, "action", do)
				wait = time.Second
			}
		}
		timer := e.Clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-e.holderChanged:
		}
		timer.Stop()
	}
}

// recordProbe records the result of a probe of the holder.
func (e *Election) recordProbe(node string, answered bool) {
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

// write sets the holder of the Lease. If the Lease has changed since it was observed, write observes the current
// version and fails with a conflict.
func (e *Election) write(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	e.mu.Lock()
	current := e.lease
	e.mu.Unlock()
	now := metav1.NewMicroTime(e.Clock.Now())
	var written *coordinationv1.Lease
	var err error
	if current == nil {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: agent.GatewayName}}
		setHolder(lease, to, now)
		written, err = e.Leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease := current.DeepCopy()
		setHolder(lease, to, now)
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

func setHolder(lease *coordinationv1.Lease, who string, now metav1.MicroTime) {
	if holder(lease) != who {
		lease.Spec.AcquireTime = &now
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &who, &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
}

// Release removes this gateway from the Lease, and waits until another gateway has acquired it. It returns at once if
// this gateway does not hold the Lease, and fails if no other gateway acquires it before the context ends. Call it
// after Run has returned.
func (e *Election) Release(ctx context.Context) error {
	for {
		e.mu.Lock()
		isHolder := holder(e.lease) == e.Self
		e.mu.Unlock()
		if !isHolder {
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
			return fmt.Errorf("waiting for another gateway to acquire Lease %s: %w", agent.GatewayName, ctx.Err())
		case <-e.holderChanged:
		}
	}
	return nil
}
