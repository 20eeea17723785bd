// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// leasePatience is how long the gateways' Lease may lie there before what was
// said of the tunnels counts as out of date: as long as the pods of a node that
// is silent count as ready.
const leasePatience = 40 * time.Second

// gatewayLease is what is reconciled beside foreign clusters: whether there is
// a gateway that tells of the tunnels.
var gatewayLease = cache.ObjectName{Namespace: "leases", Name: v1alpha1.GatewayName}

// gatewayLife is what is known of the gateways' Lease.
type gatewayLife struct {
	mu sync.Mutex
	// version is that of the Lease when it was seen to change last, and heard when
	// that was.
	version string
	heard   time.Time
	// silent tells that it does not change any more.
	silent bool
}

// isSilent tells whether no gateway of this cluster says how the tunnels are.
func (l *gatewayLife) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// left is how long the Lease may still lie there. Before one was ever seen,
// nobody is missed.
func (l *gatewayLife) left(version string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newer(version, l.version) {
		l.version, l.heard = version, now
	}
	if l.heard.IsZero() {
		return leasePatience
	}
	return l.heard.Add(leasePatience).Sub(now)
}

// newer tells whether a version is one, and comes after another one. The cache is
// asked, and the API server: neither has always the newest.
func newer(version, than string) bool {
	if version == "" || than == "" {
		return version != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// becomes tells whether it is news that the gateways are silent, or are not.
func (l *gatewayLife) becomes(silent bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.silent != silent
	l.silent = silent
	return news
}

// followLease looks whether the Lease is renewed, and has every tunnel looked at
// when that changes.
func (r *reconciler) followLease(ctx context.Context) (time.Duration, error) {
	lease, err := r.leases.Get(v1alpha1.GatewayName)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	version := ""
	if err == nil {
		version = lease.ResourceVersion
	}
	left := r.gateway.left(version, r.Clock.Now())
	if left <= 0 && !r.gateway.isSilent() {
		// It may be that this process alone has heard nothing.
		found, err := r.Kube.CoordinationV1().Leases(r.Namespace).Get(ctx, v1alpha1.GatewayName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("look whether a gateway renews its Lease: %w", err)
		}
		if err == nil {
			left = r.gateway.left(found.ResourceVersion, r.Clock.Now())
		}
	}
	if r.gateway.becomes(left <= 0) {
		for _, key := range r.all(nil) {
			r.again(key)
		}
	}
	return max(left, 0), nil
}
