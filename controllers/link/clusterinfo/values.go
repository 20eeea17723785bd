// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
)

// maxValues is the maximum number of CIDRs in one flag.
const maxValues = 64

// Values are the ranges that an administrator configures. PodCIDRs and ServiceCIDRs override the detected ranges; if
// they are empty, the ranges are detected. NodeCIDRs are used in addition to detected addresses. ReservedCIDRs are
// further ranges that pods of this cluster reach, so that ranges of peers are not remapped to them.
type Values struct {
	PodCIDRs, ServiceCIDRs, NodeCIDRs, ReservedCIDRs []string
	// ExternalCIDRs are the CIDRs from which non-pod endpoints get addresses that peers can reach. Empty
	// means that AddressPool external has them.
	ExternalCIDRs []string
}

// flags returns the flags that set v, except the flag of ExternalCIDRs, which package link/tunnel adds.
func (v *Values) flags() []struct {
	value *[]string
	name  string
	usage string
} {
	return []struct {
		value *[]string
		name  string
		usage string
	}{
		{&v.PodCIDRs, "network-pod-cidrs", "CIDRs of this cluster's pods, for example 10.244.0.0/16. " +
			"They override the detected CIDRs. If empty, they are detected."},
		{&v.ServiceCIDRs, "network-service-cidrs",
			"CIDRs of this cluster's Services. They override the detected CIDRs. If empty, they are detected."},
		{&v.NodeCIDRs, "network-node-cidrs", "CIDRs of this cluster's nodes, in addition to the addresses that nodes have."},
		{&v.ReservedCIDRs, "network-reserved-cidrs",
			"Further CIDRs that pods of this cluster reach. Ranges of peers are not remapped to them."},
	}
}

// AddFlags adds the flags that set v, except the flag of ExternalCIDRs, which package link/tunnel adds.
func (v *Values) AddFlags(fs *pflag.FlagSet) {
	for _, flag := range v.flags() {
		fs.StringSliceVar(flag.value, flag.name, *flag.value, flag.usage)
	}
}

// Validate returns an error for each invalid flag.
func (v *Values) Validate() []error {
	var errs []error
	for _, flag := range v.flags() {
		if len(*flag.value) > maxValues {
			errs = append(errs, fmt.Errorf("--%s: must name at most %d CIDRs", flag.name, maxValues))
		}
		for _, text := range *flag.value {
			for _, err := range validation.ValidateCIDR(text, field.NewPath(flag.name)) {
				errs = append(errs, fmt.Errorf("--%s: %w", flag.name, err))
			}
		}
	}
	return errs
}

// found returns the parsed CIDRs in v for one use, without invalid ones, which Validate reports.
func (v *Values) found(use v1alpha1.ClusterRangeUse) []netip.Prefix {
	texts := map[v1alpha1.ClusterRangeUse][]string{
		v1alpha1.RangeOfPods: v.PodCIDRs, v1alpha1.RangeOfServices: v.ServiceCIDRs, v1alpha1.RangeOfNodes: v.NodeCIDRs,
		v1alpha1.RangeExternal: v.ExternalCIDRs, v1alpha1.RangeReserved: v.ReservedCIDRs,
	}[use]
	return netmap.ParseCIDRs(texts)
}
