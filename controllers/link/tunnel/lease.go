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

// leaseTimeout is how long the gateways' Lease may stay unchanged before the statuses of the
// TunnelEndpoints count as outdated: as long as the pods of a node that stopped count as ready.
const leaseTimeout = 40 * time.Second

// gatewayLife is what was observed of the gateways' Lease.
type gatewayLife struct {
	mu sync.Mutex
	// version is the resourceVersion of the last observed change of the Lease, and observed its
	// time.
	version  string
	observed time.Time
	// expired is whether the Lease was not renewed within leaseTimeout.
	expired bool
}

// isExpired reports whether no gateway of this cluster is active, so that the statuses of tunnels are outdated.
func (l *gatewayLife) isExpired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expired
}

// left returns the time until the Lease expires. Before one was observed, it does not expire.
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

// newer reports whether a version comes after another one. Both the cache and the API server are
// read, neither of which always has the newest.
func newer(version, than string) bool {
	if version == "" || than == "" {
		return version != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// set sets whether the Lease is expired, and reports whether that changed.
func (l *gatewayLife) set(expired bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.expired != expired
	l.expired = expired
	return changed
}

// followLease verifies that the Lease is renewed, and requests a pass over every tunnel when that
// changes.
func (r *Reconciler) followLease(ctx context.Context) (time.Duration, error) {
	lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.GatewayName}
	if err := r.installation.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	left := r.life.left(lease.ResourceVersion, r.Clock.Now())
	if left <= 0 && !r.life.isExpired() {
		// Only the cache of this process may be outdated.
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
