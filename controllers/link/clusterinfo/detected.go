// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
)

// detected has the ranges of the local cluster that were read from its sources, for example from the CNI.
type detected struct {
	// ranges maps the use and the source of ranges to the ranges.
	ranges map[v1alpha1.ClusterRangeUse]map[v1alpha1.ClusterRangeSource][]netip.Prefix
	// invalid has the texts that parse rejects, and their sources.
	invalid []invalidRange
	// undecoded has the sources whose configuration cannot be decoded.
	undecoded []undecodedSource
}

type invalidRange struct {
	source v1alpha1.ClusterRangeSource
	text   string
}

type undecodedSource struct {
	source v1alpha1.ClusterRangeSource
	err    error
}

// add adds CIDRs or addresses of a source. Each text may contain several, separated by commas or white space,
// for example one of each IP family.
func (d *detected) add(use v1alpha1.ClusterRangeUse, source v1alpha1.ClusterRangeSource, texts ...string) {
	if d.ranges == nil {
		d.ranges = map[v1alpha1.ClusterRangeUse]map[v1alpha1.ClusterRangeSource][]netip.Prefix{}
	}
	if d.ranges[use] == nil {
		d.ranges[use] = map[v1alpha1.ClusterRangeSource][]netip.Prefix{}
	}
	for _, list := range texts {
		separates := func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }
		for _, text := range strings.FieldsFunc(list, separates) {
			prefix, ok := parse(text)
			switch {
			case !ok:
				d.invalid = append(d.invalid, invalidRange{source, text})
			case !slices.Contains(d.ranges[use][source], prefix):
				d.ranges[use][source] = append(d.ranges[use][source], prefix)
			}
		}
	}
}

// addAddress adds an address, unless parse rejects it, for example a link-local address.
func (d *detected) addAddress(use v1alpha1.ClusterRangeUse, source v1alpha1.ClusterRangeSource, text string) {
	if prefix, ok := parse(text); ok {
		d.add(use, source, prefix.String())
	}
}

// of returns the CIDRs of one IP family that a source has for a use.
func (d *detected) of(use v1alpha1.ClusterRangeUse, source v1alpha1.ClusterRangeSource, is4 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(d.ranges[use][source]), func(p netip.Prefix) bool {
		return p.Addr().Is4() != is4
	})
}

// parse returns a CIDR, or an address as a CIDR; false if text is neither, or if validation.ValidateCIDR rejects it,
// for example a link-local address or a prefix shorter than shortestPrefix.
func parse(text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		address = address.Unmap().WithZone("")
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	prefix = prefix.Masked()
	return prefix, len(validation.ValidateCIDR(prefix.String(), field.NewPath("cidr"))) == 0
}

// distinct returns CIDRs sorted, without CIDRs that another one contains.
func distinct(cidrs []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(cidrs)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	var kept []netip.Prefix
	for _, cidr := range sorted {
		if !netmap.Covers(kept, cidr) {
			kept = append(kept, cidr)
		}
	}
	slices.SortFunc(kept, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return kept
}

// shortestPrefix is the prefix length of the largest range that the API accepts.
const shortestPrefix = 8

// aggregate returns CIDRs that contain all given CIDRs of one family, and whose number is at most most. It shortens
// prefixes only as far as necessary, and not below shortestPrefix: if that does not suffice, it returns more CIDRs.
func aggregate(cidrs []netip.Prefix, most int) []netip.Prefix {
	kept := distinct(cidrs)
	if len(kept) <= most {
		return kept
	}
	for bits := kept[0].Addr().BitLen() - 1; len(kept) > most && bits >= shortestPrefix; bits-- {
		var set addresses.Set
		for _, cidr := range cidrs {
			set = set.With(netip.PrefixFrom(cidr.Addr(), min(cidr.Bits(), bits)).Masked())
		}
		kept = slices.Collect(set.Prefixes())
	}
	return kept
}
