// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressing gives each address mapping a range that no other one has.
package addressing

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/ledger"
)

// Account is the one that all mappings are in: pools may overlap, and a mapping
// may keep a range that lies in none of them.
const Account = "addresses"

// Request is for a range of a pool.
type Request struct {
	addresses.Request
	// Pool is the AddressPool.
	Pool string
}

// ErrNoPool is what is said of a pool that does not exist.
type ErrNoPool struct {
	// Pool is the name of the AddressPool.
	Pool string
}

// Error says which pool does not exist.
func (e *ErrNoPool) Error() string { return fmt.Sprintf("there is no AddressPool %s", e.Pool) }

// Taken is a range, and the pool that its mapping names.
type Taken struct {
	Prefix netip.Prefix `json:"prefix"`
	Pool   string       `json:"pool"`
}

// sum is what several mappings take, and how many there are by pool.
type sum struct {
	set      addresses.Set
	mappings map[string]int64
}

// Plus adds what one takes.
func (s sum) Plus(taken Taken) sum {
	return sum{s.set.With(taken.Prefix), counted(s.mappings, taken.Pool, 1)}
}

// Minus takes out what one took.
func (s sum) Minus(taken Taken) sum {
	return sum{s.set.Without(taken.Prefix), counted(s.mappings, taken.Pool, -1)}
}

func counted(mappings map[string]int64, pool string, more int64) map[string]int64 {
	changed := map[string]int64{}
	maps.Copy(changed, mappings)
	if changed[pool] += more; changed[pool] == 0 {
		delete(changed, pool)
	}
	return changed
}

// Creation is one request that may create an address mapping.
type Creation = ledger.Creation[Request, Taken, sum]

// Addresses are what mappings are created with.
type Addresses struct {
	*ledger.Ledgers[Request, Taken, sum]
	pools *ledger.Objects
}

// Open makes the addresses over the storage of the federation API. Pools are
// read from it directly, and not from a cache: what is reserved is not given any
// more. Alone says that no other server writes there. An error means that the
// storage cannot be reached.
func Open(getter generic.RESTOptionsGetter, alone bool) (*Addresses, error) {
	pools, err := ledger.OpenObjects(getter, "addresspools",
		func() runtime.Object { return &federation.AddressPool{} }, func() runtime.Object { return &federation.AddressPoolList{} })
	if err != nil {
		return nil, err
	}
	a := &Addresses{pools: pools}
	if a.Ledgers, err = ledger.Open(ledger.Kind[Request, Taken, sum]{
		Objects: "addressmappings", Ledgers: "addressledgers",
		Entry: entry, Terms: a.terms,
		Keep: func(context.Context, string) (bool, error) { return true, nil },
	}, getter, alone); err != nil {
		pools.Close()
		return nil, err
	}
	return a, nil
}

// Close ends what Open has started.
func (a *Addresses) Close() {
	a.Ledgers.Close()
	a.pools.Close()
}

// entry is what a mapping takes, as long as it is there.
func entry(obj runtime.Object) (account string, taken Taken, counts bool) {
	mapping, ok := obj.(*federation.AddressMapping)
	if !ok {
		return "", Taken{}, false
	}
	prefix, err := Prefix(mapping.Spec.Mapped)
	if err != nil {
		return "", Taken{}, false
	}
	return Account, Taken{Prefix: prefix, Pool: mapping.Spec.Pool}, true
}

// terms let a mapping have what its pool has and no other mapping.
func (a *Addresses) terms(ctx context.Context, _ string) (ledger.Terms[Request, Taken, sum], error) {
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
	return func(used ledger.Used[sum], asked Request) (Taken, error) {
		pool, ok := pools[asked.Pool]
		if !ok {
			return Taken{}, &ErrNoPool{asked.Pool}
		}
		prefix, err := pool.Allocate(used.Sum.set, asked.Request)
		return Taken{Prefix: prefix, Pool: asked.Pool}, err
	}, nil
}

// poolOf is a pool that was validated when it was stored.
func poolOf(pool *federation.AddressPool) (addresses.Pool, error) {
	cidrs, err := prefixes(pool.Spec.CIDRs)
	if err != nil {
		return addresses.Pool{}, fmt.Errorf("read AddressPool %s: %w", pool.Name, err)
	}
	reserved, err := prefixes(pool.Spec.Reserved)
	if err != nil {
		return addresses.Pool{}, fmt.Errorf("read AddressPool %s: %w", pool.Name, err)
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

// Prefix reads a CIDR, or an address as the range that it is.
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
