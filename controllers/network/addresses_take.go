// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// ReasonNoExternalAddresses says that other clusters cannot call what runs on
// this one's providers, since there are no addresses for that at all.
const ReasonNoExternalAddresses = "NoExternalAddresses"

// maxSingles is how many mappings there are for one other cluster: a gateway
// refuses the whole tunnel where there are more than 10000 of any kind.
const maxSingles = 9000

// take makes a mapping, if there is an address for it. Where there is none it
// says so, and when to try again.
func (a *podAddresses) take(ctx context.Context, mapping *v1alpha1.AddressMapping) (time.Duration, error) {
	pool, err := a.pools.Get(ExternalAddressPool)
	if apierrors.IsNotFound(err) {
		// It is an event when there is one.
		a.tell(mapping, ReasonNoExternalAddresses, "There is no AddressPool external: set network.externalCIDRs, for pods on one provider to be endpoints on another.")
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	address, err := netip.ParseAddr(mapping.Spec.Address)
	if err != nil || !gives(pool, address.Is4()) {
		// Who has addresses of one family alone wants no others.
		return 0, nil
	}
	if left := a.untilRetry(address.Is4()); left > 0 {
		return left, nil
	}
	reader := mapping.Labels[v1alpha1.LabelForeignCluster]
	others, err := a.mappings.IndexKeys(indexReader, reader)
	if err != nil {
		return 0, err
	}
	if len(others) >= maxSingles {
		a.tell(mapping, ReasonAddressesExhausted, "Cluster %s calls %d addresses already, which is as many as a tunnel takes.", reader, len(others))
		return exhaustedRetry, nil
	}
	_, err = a.Federation.FederationV1alpha1().AddressMappings(a.Namespace).Create(ctx, mapping, createOptions)
	switch {
	case err == nil:
		a.tell(mapping, "", "")
	case stale(err):
		return time.Second, nil
	case apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted):
		a.exhaust(address.Is4())
		a.tell(mapping, ReasonAddressesExhausted, "There is no address left for pods on one provider to be endpoints on another: %s", remote.Text(err.Error()))
		return exhaustedRetry, nil
	default:
		return 0, fmt.Errorf("map %s for cluster %s: %w", mapping.Spec.Address, reader, err)
	}
	return 0, nil
}

// gives tells whether a pool has addresses of a family.
func gives(pool *v1alpha1.AddressPool, v4 bool) bool {
	return slices.ContainsFunc(pool.Spec.CIDRs, func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Addr().Is4() == v4
	})
}

// untilRetry is how long a family of addresses is not asked for: where there is
// none left, one request each minute finds that out for everybody.
func (a *podAddresses) untilRetry(v4 bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.exhausted[v4].Sub(a.Clock.Now())
}

// exhaust has a family not asked for a while.
func (a *podAddresses) exhaust(v4 bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exhausted[v4] = a.Clock.Now().Add(exhaustedRetry)
}

// replenish has all families asked for again: the pool has changed.
func (a *podAddresses) replenish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.exhausted)
}

// tell tells the owner of the pod's namespace why it is not reached, once;
// without a reason that it is.
func (a *podAddresses) tell(mapping *v1alpha1.AddressMapping, reason, format string, args ...any) {
	of, err := cache.ParseObjectName(mapping.Annotations[v1alpha1.AnnotationOriginPod])
	if err != nil {
		return
	}
	a.mu.Lock()
	told := a.told[of.Namespace]
	a.told[of.Namespace] = reason
	a.mu.Unlock()
	if reason == "" || told == reason {
		return
	}
	if offloading, err := a.offloadings.NamespaceOffloadings(of.Namespace).Get(v1alpha1.NamespaceOffloadingName); err == nil {
		a.Events.Eventf(offloading, corev1.EventTypeWarning, reason, format, args...)
	}
}
