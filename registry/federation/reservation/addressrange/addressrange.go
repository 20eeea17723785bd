// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressrange reserves a unique range of an AddressPool for each AddressMapping, and reports the usage of each
// pool.
package addressrange

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation/ledger"
)

// Account is the name of the only account of the ledgers of addresses. Its ledger has the mappings of all pools,
// because pools may overlap, and a CIDR may be mapped to itself although it is in no pool.
const Account = "addresses"

// Request is the request of a mapping for a range of an AddressPool.
type Request struct {
	addresses.Request
	// Pool is the name of the AddressPool.
	Pool string
}

// ErrNoPool means that a requested AddressPool does not exist.
type ErrNoPool struct {
	// Pool is the name of the AddressPool.
	Pool string
}

// Error implements error.
func (e *ErrNoPool) Error() string { return fmt.Sprintf("AddressPool %s does not exist", e.Pool) }

// Allocation is the range of a mapping, and the name of its AddressPool.
type Allocation struct {
	Prefix netip.Prefix `json:"prefix"`
	Pool   string       `json:"pool"`
}

// sum has the ranges of several mappings, and the number of mappings of each pool, by the name of the pool.
type sum struct {
	set      addresses.Set
	mappings map[string]int64
}

// Plus returns the sum with the range of one more mapping.
func (s sum) Plus(allocated Allocation) sum {
	return sum{s.set.With(allocated.Prefix), counted(s.mappings, allocated.Pool, 1)}
}

// Minus returns the sum without the range of one mapping.
func (s sum) Minus(allocated Allocation) sum {
	return sum{s.set.Without(allocated.Prefix), counted(s.mappings, allocated.Pool, -1)}
}

func counted(mappings map[string]int64, pool string, more int64) map[string]int64 {
	changed := map[string]int64{}
	maps.Copy(changed, mappings)
	if changed[pool] += more; changed[pool] == 0 {
		delete(changed, pool)
	}
	return changed
}

// Creation is an API request that may create an AddressMapping.
type Creation = ledger.Creation[Request, Allocation, sum]

// Addresses allocates the ranges of all AddressMappings.
type Addresses struct {
	*ledger.Ledgers[Request, Allocation, sum]
	pools *ledger.Objects
}

// Open opens the ledger of addresses in the etcd of the federation API. alone means that no other server writes to this
// etcd. AddressPools are read from etcd and not from a cache, because a range that was just added to spec.reserved must
// not be allocated. Open fails if the storage cannot be configured.
func Open(getter generic.RESTOptionsGetter, alone bool) (*Addresses, error) {
	pools, err := ledger.OpenObjects(getter, "addresspools",
		func() runtime.Object { return &federation.AddressPool{} },
		func() runtime.Object { return &federation.AddressPoolList{} })
	if err != nil {
		return nil, err
	}
	a := &Addresses{pools: pools}
	if a.Ledgers, err = ledger.Open(ledger.Kind[Request, Allocation, sum]{
		Objects: "addressmappings", Ledgers: "addressledgers",
		Entry: entry, Policy: a.policy,
		Keep: func(context.Context, string) (bool, error) { return true, nil },
	}, getter, alone); err != nil {
		pools.Close()
		return nil, err
	}
	return a, nil
}

// Close closes the connections that Open opened.
func (a *Addresses) Close() {
	a.Ledgers.Close()
	a.pools.Close()
}

// entry implements ledger.Kind.Entry. A mapping uses its range until it is deleted.
func entry(obj runtime.Object) (account string, allocated Allocation, counts bool) {
	mapping, ok := obj.(*federation.AddressMapping)
	if !ok {
		return "", Allocation{}, false
	}
	prefix, err := Prefix(mapping.Spec.Mapped)
	if err != nil {
		return "", Allocation{}, false
	}
	return Account, Allocation{Prefix: prefix, Pool: mapping.Spec.Pool}, true
}

// policy returns a policy that allocates a free range of the requested pool. The policy fails with ErrNoPool if the
// pool does not exist, and with the errors of addresses.Pool.Allocate if no range is available.
func (a *Addresses) policy(ctx context.Context, _ string) (ledger.Policy[Request, Allocation, sum], error) {
	list := &federation.AddressPoolList{}
	if err := a.pools.List(ctx, "", list); err != nil {
		return nil, err
	}
	pools := map[string]addresses.Pool{}
	for i := range list.Items {
		pool, err := poolOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		pools[list.Items[i].Name] = pool
	}
	return func(used ledger.Used[sum], requested Request) (Allocation, error) {
		pool, ok := pools[requested.Pool]
		if !ok {
			return Allocation{}, &ErrNoPool{requested.Pool}
		}
		prefix, err := pool.Allocate(used.Sum.set, requested.Request)
		return Allocation{Prefix: prefix, Pool: requested.Pool}, err
	}, nil
}

// poolOf returns the ranges of an AddressPool. They were validated when the pool was stored.
func poolOf(pool *federation.AddressPool) (addresses.Pool, error) {
	cidrs, err := prefixes(pool.Spec.CIDRs)
	if err != nil {
		return addresses.Pool{}, fmt.Errorf("reading AddressPool %s: %w", pool.Name, err)
	}
	reserved, err := prefixes(pool.Spec.Reserved)
	if err != nil {
		return addresses.Pool{}, fmt.Errorf("reading AddressPool %s: %w", pool.Name, err)
	}
	return addresses.NewPool(cidrs, reserved), nil
}

func prefixes(list []string) ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		prefix, err := Prefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, prefix)
	}
	return all, nil
}

// Prefix parses a CIDR or an address. An address becomes a range of one address.
func Prefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}
