// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netmap translates addresses between the CIDRs of one cluster and the remapped CIDRs by which
// another cluster reaches them.
package netmap

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// CIDRMapping is a CIDR of one cluster, and the CIDR of the same length by which the other cluster
// reaches it.
type CIDRMapping struct {
	CIDR, Mapped netip.Prefix
}

// Parse returns the parsed form of a mapping in an API object. It fails if a CIDR is malformed, or if
// the prefix lengths or address families of the two CIDRs differ.
func Parse(mapping v1alpha1.CIDRMapping) (CIDRMapping, error) {
	cidr, err := netip.ParsePrefix(mapping.CIDR)
	if err != nil {
		return CIDRMapping{}, fmt.Errorf("parsing a mapping: %q must be a CIDR", mapping.CIDR)
	}
	mapped, err := netip.ParsePrefix(mapping.Mapped)
	if err != nil {
		return CIDRMapping{}, fmt.Errorf("parsing the remapped CIDR of %s: %q must be a CIDR", cidr, mapping.Mapped)
	}
	parsed := CIDRMapping{CIDR: cidr, Mapped: mapped}
	return parsed, parsed.Validate()
}

// Validate returns an error if the prefix lengths or the address families of the two CIDRs differ.
func (m CIDRMapping) Validate() error {
	if m.CIDR.Bits() != m.Mapped.Bits() || m.CIDR.Addr().Is4() != m.Mapped.Addr().Is4() {
		return fmt.Errorf("remapping %s to %s: both must have the same family and length", m.CIDR, m.Mapped)
	}
	return nil
}

// Translate returns the address in Mapped with the same host bits as an address in CIDR. It returns
// false if the address is not in CIDR.
func (m CIDRMapping) Translate(address netip.Addr) (netip.Addr, bool) {
	if !m.CIDR.Contains(address) {
		return netip.Addr{}, false
	}
	host, network := address.AsSlice(), m.Mapped.Addr().AsSlice()
	for i := range host {
		bits := min(max(m.Mapped.Bits()-8*i, 0), 8)
		mask := ^byte(0xff >> bits)
		network[i] = network[i]&mask | host[i]&^mask
	}
	return netip.AddrFromSlice(network)
}

// CIDRMappings are the mappings of all CIDRs of one cluster.
type CIDRMappings []CIDRMapping

// ParseAll returns the parsed form of a list of mappings in an API object. It fails if Parse fails for
// one of them.
func ParseAll(list []v1alpha1.CIDRMapping) (CIDRMappings, error) {
	var all CIDRMappings
	for _, mapping := range list {
		parsed, err := Parse(mapping)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed)
	}
	return all, nil
}

// Translate returns the address that an address is mapped to. It returns false if the address is in
// none of the CIDRs.
func (l CIDRMappings) Translate(address netip.Addr) (netip.Addr, bool) {
	for _, mapping := range l {
		if translated, ok := mapping.Translate(address); ok {
			return translated, true
		}
	}
	return netip.Addr{}, false
}

// Translation is the mappings of both clusters of a tunnel. The zero value translates no address.
type Translation struct {
	// Local maps CIDRs of the local cluster to the CIDRs by which the remote cluster reaches them.
	// Remote maps CIDRs of the remote cluster to the CIDRs by which the local cluster reaches them.
	Local, Remote CIDRMappings
}

// ParseTranslation returns the translation of a tunnel from the mappings in its TunnelEndpoint. It
// fails if Parse fails for one of them.
func ParseTranslation(local, remote []v1alpha1.CIDRMapping) (Translation, error) {
	var t Translation
	var err error
	if t.Local, err = ParseAll(local); err != nil {
		return Translation{}, fmt.Errorf("parsing the CIDRs of the local cluster: %w", err)
	}
	if t.Remote, err = ParseAll(remote); err != nil {
		return Translation{}, fmt.Errorf("parsing the CIDRs of the remote cluster: %w", err)
	}
	return t, nil
}

// Covers reports whether at least one of the CIDRs contains other completely.
func Covers(cidrs []netip.Prefix, other netip.Prefix) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool {
		return cidr.Bits() <= other.Bits() && cidr.Overlaps(other)
	})
}
