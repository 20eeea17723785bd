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
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// ReasonNoExternalAddresses says that another cluster cannot call what no tunnel
// leads to by itself, since there are no addresses for that at all.
const ReasonNoExternalAddresses = "NoExternalAddresses"

// maxSingles is how many mappings there are for one other cluster, each port of
// one counted: a gateway refuses the whole tunnel where there are more than 10000
// of any kind.
const maxSingles = 9000

// take makes a mapping, if there is an address for it. Where there is none it
// says so, and when to try again.
func (a *podAddresses) take(ctx context.Context, mapping *v1alpha1.AddressMapping) (time.Duration, error) {
	pool, err := a.pools.Get(ExternalAddressPool)
	if apierrors.IsNotFound(err) {
		// It is an event when there is one.
		a.tell(mapping, ReasonNoExternalAddresses, "There is no AddressPool external for what no tunnel leads to by itself, as pods on other providers: set network.externalCIDRs.")
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
	others, err := a.mappings.ByIndex(indexReader, reader)
	if err != nil {
		return 0, err
	}
	calls := 0
	for _, one := range append(others, mapping) {
		calls += max(len(one.(*v1alpha1.AddressMapping).Spec.Ports), 1)
	}
	if calls > maxSingles {
		a.tell(mapping, ReasonAddressesExhausted, "Cluster %s calls %d addresses and ports of them already, which is as many as a tunnel takes.", reader, calls)
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
		a.tell(mapping, ReasonAddressesExhausted, "There is no address left for what no tunnel leads to by itself, as pods on other providers: %s", remote.Text(err.Error()))
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

// tell tells whoever has an interest in a mapping why there is none, once; without
// a reason that there is. It is the owner of the pod's namespace, or of the
// foreign cluster that is to call the API server.
func (a *podAddresses) tell(mapping *v1alpha1.AddressMapping, reason, format string, args ...any) {
	owner := originOf(mapping)
	if owner.Namespace != "" {
		owner.Name = v1alpha1.NamespaceOffloadingName
	}
	a.mu.Lock()
	told := a.told[owner]
	a.told[owner] = reason
	a.mu.Unlock()
	if reason == "" || told == reason {
		return
	}
	var about runtime.Object
	var err error
	if owner.Namespace != "" {
		about, err = a.offloadings.NamespaceOffloadings(owner.Namespace).Get(owner.Name)
	} else {
		about, err = a.clusters.Get(owner.Name)
	}
	if err == nil {
		a.Events.Eventf(about, corev1.EventTypeWarning, reason, format, args...)
	}
}
