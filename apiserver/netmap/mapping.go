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

// CIDRMapping is a CIDR of one cluster, and the CIDR of equal length that the other
// cluster reaches it at.
type CIDRMapping struct {
	CIDR, Mapped netip.Prefix
}

// Parse returns the mapping that an object describes. It fails if a CIDR is malformed, or
// if their lengths or families differ.
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

// Validate returns an error if the lengths or the families of both CIDRs differ.
func (m CIDRMapping) Validate() error {
	if m.CIDR.Bits() != m.Mapped.Bits() || m.CIDR.Addr().Is4() != m.Mapped.Addr().Is4() {
		return fmt.Errorf("remapping %s to %s: both must have the same family and length", m.CIDR, m.Mapped)
	}
	return nil
}

// Translate returns the address that has the host bits of an address of CIDR, in Mapped;
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

// CIDRMappings are the mappings of one cluster.
type CIDRMappings []CIDRMapping

// ParseAll returns the mappings that an object describes. It fails as Parse does.
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

// Translate returns what an address is mapped to; false if it is in none of the CIDRs.
func (l CIDRMappings) Translate(address netip.Addr) (netip.Addr, bool) {
	for _, mapping := range l {
		if translated, ok := mapping.Translate(address); ok {
			return translated, true
		}
	}
	return netip.Addr{}, false
}

// Translation holds the mappings of both sides of a tunnel. The zero value translates no
// address.
type Translation struct {
	// Local maps the CIDRs of the local cluster to those of the remote one, and Remote
	// those of the remote cluster to those of the local one.
	Local, Remote CIDRMappings
}

// ParseTranslation returns the translation of a tunnel. It fails as Parse does.
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

// Covers reports whether one of the CIDRs contains the other CIDR.
func Covers(cidrs []netip.Prefix, other netip.Prefix) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool {
		return cidr.Bits() <= other.Bits() && cidr.Overlaps(other)
	})
}
