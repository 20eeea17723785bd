// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// leaseTimeout is the time without a renewal of the gateways' Lease after which the statuses of TunnelEndpoints count
// as outdated. It exceeds settleTime, within which a standby gateway becomes active.
const leaseTimeout = 40 * time.Second

// gatewayLife is the observed state of the Lease that the active gateway renews.
type gatewayLife struct {
	mu sync.Mutex
	// version is the newest observed resourceVersion of the Lease, and observed the time when it was
	// first observed, by the clock of this process.
	version  string
	observed time.Time
	// expired is true if the Lease was not renewed within leaseTimeout.
	expired bool
}

// isExpired reports whether no gateway of this cluster renewed the Lease within leaseTimeout, so that
// the statuses of TunnelEndpoints are outdated.
func (l *gatewayLife) isExpired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expired
}

// left records the resourceVersion of the Lease that was read at time now, and returns the time until
// the Lease expires. A Lease that was never observed does not expire.
func (l *gatewayLife) left(version string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newer(version, l.version) {
		l.version, l.observed = version, now
	}
	if l.observed.IsZero() {
		return leaseTimeout
	}
	return l.observed.Add(leaseTimeout).Sub(now)
}

// newer reports whether a resourceVersion is newer than another one. The Lease is read from the cache
// and from the API server, and a later read may return an older Lease.
func newer(version, than string) bool {
	if version == "" || than == "" {
		return version != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// set sets l.expired, and reports whether it changed.
func (l *gatewayLife) set(expired bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.expired != expired
	l.expired = expired
	return changed
}

// followLease reads the gateways' Lease, and enqueues all ForeignClusters with a tunnel if it expired
// or was renewed again. It returns the time until the Lease expires.
func (r *Reconciler) followLease(ctx context.Context) (time.Duration, error) {
	lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.GatewayName}
	if err := r.installation.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	left := r.life.left(lease.ResourceVersion, r.Clock.Now())
	if left <= 0 && !r.life.isExpired() {
		// The Lease may be renewed, and only the cache of this process outdated.
		current := &coordinationv1.Lease{}
		if err := r.Live.Get(ctx, key, current); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("reading the Lease of the gateways: %w", err)
		}
		if current.ResourceVersion != "" {
			left = r.life.left(current.ResourceVersion, r.Clock.Now())
		}
	}
	if r.life.set(left <= 0) {
		for _, request := range r.all(ctx, nil) {
			r.lifeChanged.Add(request)
		}
	}
	return max(left, 0), nil
}
