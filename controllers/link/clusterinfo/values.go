// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"net/netip"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Values are the ranges that an administrator configures. Those of pods, Services and nodes
// override what is detected; empty means that it is detected.
type Values struct {
	PodCIDRs, ServiceCIDRs, NodeCIDRs, ReservedCIDRs []string
	// ExternalCIDRs are those that expose non-pod endpoints to peers, if any are named.
	ExternalCIDRs []string
}

// found returns the values of one use, as a source that names them.
func (v *Values) found(use v1alpha1.ClusterRangeUse) []netip.Prefix {
	texts := map[v1alpha1.ClusterRangeUse][]string{
		v1alpha1.RangeOfPods: v.PodCIDRs, v1alpha1.RangeOfServices: v.ServiceCIDRs, v1alpha1.RangeOfNodes: v.NodeCIDRs,
		v1alpha1.RangeExternal: v.ExternalCIDRs, v1alpha1.RangeReserved: v.ReservedCIDRs,
	}[use]
	var prefixes []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes
}
