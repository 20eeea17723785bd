// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

const (
	// ReasonNoExternalAddresses of an event on a NamespaceOffloading or a ForeignCluster means that the local cluster
	// has no external CIDR, so peers can reach its own pods only, and not, for example, pods on other providers. Set
	// network.externalCIDRs.
	ReasonNoExternalAddresses = "NoExternalAddresses"
	// ReasonAddressesExhausted of an event on a NamespaceOffloading or a ForeignCluster means that no external
	// address is available, or one peer would get more than 9000 external addresses and ports. Extend
	// network.externalCIDRs, or export fewer endpoints.
	ReasonAddressesExhausted = "AddressesExhausted"
)

const (
	// maxSingles limits the AddressMappings of single addresses for one peer. A mapping counts once for each of
	// its ports, and once if it has none. A gateway refuses a tunnel with more than 10000 mappings, including
	// ranges.
	maxSingles = 9000
	// exhaustedRetry is the time between two attempts to allocate an address from an exhausted pool. A
	// retry is needed because the release of an address causes no event.
	exhaustedRetry = time.Minute
	// staleRetry is the delay of a reconcile after a create failed with AlreadyExists, because the cache
	// did not have the AddressMapping yet.
	staleRetry = time.Second
)

// ensure makes the AddressMappings of an origin equal to wanted: it deletes others, updates ports, and
// creates missing ones. If no address is free for a mapping, it continues with the other ones, and returns
// the time after which to try again.
func (a *Addresses) ensure(
	ctx context.Context, events record.EventRecorder, existing []v1alpha1.AddressMapping,
	wanted map[string]*v1alpha1.AddressMapping,
) (time.Duration, error) {
	exists := map[string]bool{}
	for i := range existing {
		mapping := &existing[i]
		exists[mapping.Name] = true
		if mapping.DeletionTimestamp != nil {
			continue
		}
		keep, err := a.keep(ctx, mapping, wanted[mapping.Name])
		if err != nil {
			return 0, err
		}
		if keep {
			continue
		}
		if err := kit.Delete(ctx, a.Client, mapping.DeepCopy()); err != nil {
			return 0, err
		}
	}
	var after time.Duration
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if exists[name] {
			continue
		}
		again, err := a.create(ctx, events, wanted[name])
		if err != nil {
			return 0, err
		}
		if after == 0 || again != 0 && again < after {
			after = again
		}
	}
	return after, nil
}

// keep reports whether an existing mapping is kept, and sets its ports to the ports of wanted. It is not kept if wanted
// is nil, or if its external address is no longer in the pool; in the latter case it is created again after its
// deletion.
func (a *Addresses) keep(ctx context.Context, mapping, wanted *v1alpha1.AddressMapping) (bool, error) {
	if wanted == nil {
		return false, nil
	}
	outside, err := a.outside(ctx, mapping)
	if err != nil || outside {
		return false, err
	}
	if slices.Equal(mapping.Spec.Ports, wanted.Spec.Ports) {
		return true, nil
	}
	changed := mapping.DeepCopy()
	changed.Spec.Ports = wanted.Spec.Ports
	// RBAC allows update, and not patch.
	if err := a.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("updating the ports of address mapping %s: %w", client.ObjectKeyFromObject(mapping), err)
	}
	return true, nil
}

// outside reports whether the CIDRs of the pool changed so that they no longer contain the address of a
// mapping, which peers cannot reach then. Before it returns true, it reads the pool from the API server,
// because the cache may receive a mapping before the change of its pool.
func (a *Addresses) outside(ctx context.Context, mapping *v1alpha1.AddressMapping) (bool, error) {
	mapped, err := netip.ParseAddr(mapping.Spec.Mapped)
	if err != nil {
		return false, nil
	}
	for _, reader := range []client.Reader{a.Client, a.Live} {
		pool, err := externalPool(ctx, reader)
		if err != nil || pool == nil || contains(pool.Spec.CIDRs, mapped) {
			return false, err
		}
	}
	return true, nil
}

// externalPool returns AddressPool external; nil if it does not exist.
func externalPool(ctx context.Context, reader client.Reader) (*v1alpha1.AddressPool, error) {
	pool := &v1alpha1.AddressPool{}
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ExternalAddressPool}, pool)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading address pool %s: %w", v1alpha1.ExternalAddressPool, err)
	}
	return pool, nil
}

// contains reports whether any of the CIDRs contains an address.
func contains(cidrs []string, address netip.Addr) bool {
	return slices.ContainsFunc(netmap.ParseCIDRs(cidrs), func(cidr netip.Prefix) bool { return cidr.Contains(address) })
}

// hasFamily reports whether a pool has addresses of a family.
func hasFamily(pool *v1alpha1.AddressPool, v4 bool) bool {
	return slices.ContainsFunc(netmap.ParseCIDRs(pool.Spec.CIDRs), func(cidr netip.Prefix) bool {
		return cidr.Addr().Is4() == v4
	})
}

// create creates an AddressMapping. If no address can be allocated, it emits an event, and returns the time
// after which to try again. The time is zero if the pool must change first, which enqueues the origin.
func (a *Addresses) create(
	ctx context.Context, events record.EventRecorder, mapping *v1alpha1.AddressMapping,
) (time.Duration, error) {
	of := originOf(mapping)
	pool, err := externalPool(ctx, a.Client)
	if err != nil {
		return 0, err
	}
	if pool == nil {
		a.report(ctx, events, of, ReasonNoExternalAddresses, "AddressPool external does not exist, so peers cannot reach "+
			"endpoints that are not pods of this cluster, for example pods on other providers: set network.externalCIDRs.")
		return 0, nil
	}
	address, err := netip.ParseAddr(mapping.Spec.Address)
	if err != nil || !hasFamily(pool, address.Is4()) {
		// A cluster may have external addresses of only one IP family.
		return 0, nil
	}
	if left := a.untilRetry(pool, address.Is4()); left > 0 {
		return left, nil
	}
	peer := mapping.Labels[v1alpha1.LabelForeignCluster]
	others, err := a.mappings(ctx, client.MatchingFields{indexPeer: peer})
	if err != nil {
		return 0, err
	}
	count := portsOf(mapping)
	for i := range others {
		count += portsOf(&others[i])
	}
	if count > maxSingles {
		a.report(ctx, events, of, ReasonAddressesExhausted, fmt.Sprintf(
			"Cluster %s would get %d external addresses and ports, and the limit for one peer is %d.", peer, count, maxSingles))
		return exhaustedRetry, nil
	}
	err = a.Client.Create(ctx, mapping)
	switch {
	case err == nil:
		a.forget(client.ObjectKeyFromObject(of.owner()))
		return 0, nil
	case apierrors.IsAlreadyExists(err):
		return staleRetry, nil
	case apierrors.HasStatusCause(err, v1alpha1.CauseAddressesExhausted):
		a.exhaust(pool, address.Is4())
		a.report(ctx, events, of, ReasonAddressesExhausted, "AddressPool external has no free address for endpoints that "+
			"are not pods of this cluster, for example pods on other providers: "+remote.Text(err.Error()))
		return exhaustedRetry, nil
	default:
		return 0, fmt.Errorf("creating the mapping of %s for cluster %s: %w", mapping.Spec.Address, peer, err)
	}
}

// portsOf returns the number by which a mapping counts against maxSingles.
func portsOf(mapping *v1alpha1.AddressMapping) int { return max(len(mapping.Spec.Ports), 1) }

// untilRetry returns how long no address of a family may be requested from a pool; zero or less means that a
// request may be sent now. While a pool is exhausted, one request per exhaustedRetry is sent for all origins
// together; a change of the pool ends that.
func (a *Addresses) untilRetry(pool *v1alpha1.AddressPool, v4 bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	exhausted, ok := a.exhausted[v4]
	if !ok || exhausted.pool.UID != pool.UID || !equality.Semantic.DeepEqual(exhausted.pool.Spec, pool.Spec) {
		return 0
	}
	return exhausted.until.Sub(a.Clock.Now())
}

// exhaust records that a pool has no free address of a family.
func (a *Addresses) exhaust(pool *v1alpha1.AddressPool, v4 bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exhausted == nil {
		a.exhausted = map[bool]exhaustion{}
	}
	a.exhausted[v4] = exhaustion{pool: pool, until: a.Clock.Now().Add(exhaustedRetry)}
}

// report emits an event for the owner of an origin without an address, unless the last event for the owner
// had the same reason.
func (a *Addresses) report(ctx context.Context, events record.EventRecorder, of origin, reason, message string) {
	owner := of.owner()
	key := client.ObjectKeyFromObject(owner)
	a.mu.Lock()
	before := a.reported[key]
	if a.reported == nil {
		a.reported = map[types.NamespacedName]string{}
	}
	a.reported[key] = reason
	a.mu.Unlock()
	if before == reason {
		return
	}
	if err := a.Client.Get(ctx, key, owner); err != nil {
		// The owner does not exist, so forgetOwner will not be called for it.
		a.forget(key)
		return
	}
	events.Event(owner, corev1.EventTypeWarning, reason, message)
}

// forget removes the reason of the last event for an owner.
func (a *Addresses) forget(owner types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reported, owner)
}
