// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"net/netip"
	"slices"
)

// FreeSubnet returns the first /24 of the pool that overlaps no range in taken. It fails if there is none.
func FreeSubnet(pool netip.Prefix, taken []netip.Prefix) (netip.Prefix, error) {
	if !pool.Addr().Is4() || pool.Bits() > 24 {
		return netip.Prefix{}, fmt.Errorf("node address pool %s: must be an IPv4 prefix of /24 or larger", pool)
	}
	for i := range 1 << (24 - pool.Bits()) {
		candidate, err := Subnet(pool, 24, i)
		if err != nil {
			return netip.Prefix{}, err
		}
		if !overlapsAny(candidate, taken) {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no free /24 is left in %s: routes, addresses and CIDRs of clusters take %v; "+
		"choose another pool with --node-cidr-pool", pool, overlapping(pool, taken))
}

// Subnet returns the subnet of p with the given length and index. It fails if p has fewer such subnets.
func Subnet(p netip.Prefix, bits, index int) (netip.Prefix, error) {
	if bits < p.Bits() || index < 0 || index >= 1<<(bits-p.Bits()) {
		return netip.Prefix{}, fmt.Errorf("%s has fewer than %d prefixes of /%d", p, index+1, bits)
	}
	a, err := Address(p.Masked(), index<<(32-bits))
	return netip.PrefixFrom(a, bits), err
}

// Address returns the address of an IPv4 prefix with an index; index 0 is the network address. It fails if the
// prefix has fewer addresses.
func Address(p netip.Prefix, index int) (netip.Addr, error) {
	if !p.Addr().Is4() || index < 0 || index >= 1<<(32-p.Bits()) {
		return netip.Addr{}, fmt.Errorf("%s has no address number %d", p, index)
	}
	b := p.Masked().Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += uint32(index)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), nil
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	return len(overlapping(p, others)) > 0
}

func overlapping(p netip.Prefix, others []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, o := range others {
		if p.Overlaps(o) && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// CheckCIDRs validates the CIDRs of a cluster. They must be IPv4, disjoint and large enough: each node gets a /24 of
// the pod CIDR. The pool must not be part of one of them.
func CheckCIDRs(cluster string, pods, services, pool netip.Prefix) error {
	switch {
	case !pods.IsValid() || !pods.Addr().Is4() || pods.Bits() > 22 || pods != pods.Masked():
		return fmt.Errorf("cluster %s: pod CIDR %s: must be an IPv4 network of /22 or larger; each node gets a /24",
			cluster, pods)
	case !services.IsValid() || !services.Addr().Is4() || services.Bits() > 24 || services.Bits() < 12 ||
		services != services.Masked():
		return fmt.Errorf("cluster %s: service CIDR %s: must be an IPv4 network between /12 and /24", cluster, services)
	case pods.Overlaps(services):
		return fmt.Errorf("cluster %s: pod CIDR %s and service CIDR %s overlap", cluster, pods, services)
	case pool.Bits() >= pods.Bits() && pods.Contains(pool.Addr()),
		pool.Bits() >= services.Bits() && services.Contains(pool.Addr()):
		return fmt.Errorf("cluster %s: node address pool %s is part of its pod or service CIDR", cluster, pool)
	}
	return nil
}
