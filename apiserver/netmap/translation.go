// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netmap translates addresses between two clusters that are connected by a tunnel.
package netmap

import (
	"fmt"
	"net/netip"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Translation is what addresses are called on both sides of a tunnel. The zero
// value knows no address.
type Translation struct {
	local, remote []remap
	singles       map[netip.Addr]netip.Addr
}

// remap is a range and the one of equal length that stands for it.
type remap struct{ from, to netip.Prefix }

// NewTranslation makes the translation of a tunnel. The mappings are of single
// addresses that the other cluster may call beside; those of other clusters are
// left out. An error means that a range is malformed.
func NewTranslation(spec *v1alpha1.TunnelEndpointSpec, mappings []*v1alpha1.AddressMapping) (Translation, error) {
	t := Translation{singles: map[netip.Addr]netip.Addr{}}
	var err error
	if t.local, err = remaps(spec.Local); err != nil {
		return Translation{}, fmt.Errorf("what the other cluster calls ours: %w", err)
	}
	if t.remote, err = remaps(spec.Remote); err != nil {
		return Translation{}, fmt.Errorf("what we call the other cluster's: %w", err)
	}
	for _, mapping := range mappings {
		if mapping.Spec.ClusterID != spec.ClusterID || mapping.Spec.Address == "" || mapping.Spec.Mapped == "" {
			continue
		}
		address, err := netip.ParseAddr(mapping.Spec.Address)
		if err != nil {
			return Translation{}, fmt.Errorf("AddressMapping %s: %w", mapping.Name, err)
		}
		mapped, err := netip.ParseAddr(mapping.Spec.Mapped)
		if err != nil {
			return Translation{}, fmt.Errorf("AddressMapping %s: %w", mapping.Name, err)
		}
		t.singles[address] = mapped
	}
	return t, nil
}

func remaps(list []v1alpha1.CIDRMapping) ([]remap, error) {
	var all []remap
	for _, mapping := range list {
		from, err := netip.ParsePrefix(mapping.CIDR)
		if err != nil {
			return nil, err
		}
		to, err := netip.ParsePrefix(mapping.Mapped)
		if err != nil {
			return nil, err
		}
		if from.Bits() != to.Bits() || from.Addr().Is4() != to.Addr().Is4() {
			return nil, fmt.Errorf("%s cannot be called %s: it has another length", from, to)
		}
		all = append(all, remap{from.Masked(), to.Masked()})
	}
	return all, nil
}

// Theirs is what the other cluster calls an address of ours; false if it has no
// way to it. A mapping of the address goes before the range that it is in.
func (t Translation) Theirs(ours netip.Addr) (netip.Addr, bool) {
	if mapped, ok := t.singles[ours]; ok {
		ours = mapped
	}
	return move(t.local, ours, false)
}

// FromTheirs is the address of ours that the other cluster calls so; false if
// it means none of ours.
func (t Translation) FromTheirs(theirs netip.Addr) (netip.Addr, bool) {
	ours, ok := move(t.local, theirs, true)
	if !ok {
		return netip.Addr{}, false
	}
	for address, mapped := range t.singles {
		if mapped == ours {
			return address, true
		}
	}
	return ours, true
}

// Ours is what we call an address that the other cluster calls its own; false if
// we have no way to it.
func (t Translation) Ours(theirs netip.Addr) (netip.Addr, bool) { return move(t.remote, theirs, false) }

// FromOurs is what the other cluster itself calls an address that we call so;
// false if it is none of its own.
func (t Translation) FromOurs(ours netip.Addr) (netip.Addr, bool) { return move(t.remote, ours, true) }

// move gives an address the same place in the range that stands for its own, or
// back.
func move(list []remap, address netip.Addr, back bool) (netip.Addr, bool) {
	for _, r := range list {
		if back {
			r.from, r.to = r.to, r.from
		}
		if r.from.Contains(address) {
			return at(r.to, address), true
		}
	}
	return netip.Addr{}, false
}

// at is the address of a range that has the host bits of another one.
func at(prefix netip.Prefix, host netip.Addr) netip.Addr {
	network, address := prefix.Addr().AsSlice(), host.AsSlice()
	for bit := prefix.Bits(); bit < len(network)*8; bit++ {
		mask := byte(0x80 >> (bit % 8))
		network[bit/8] = network[bit/8]&^mask | address[bit/8]&mask
	}
	moved, _ := netip.AddrFromSlice(network)
	return moved
}
