// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeinformers "k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// ReasonTooManyRanges is that of an event of an AddressPool which cannot name
// all that this cluster has.
const ReasonTooManyRanges = "TooManyRanges"

// ownRanges knows what this cluster has by itself: ServiceCIDRs, nodes with their
// addresses and pods, and its API servers, which may be no nodes. No other cluster
// may have these here, whatever an administrator has named or forgotten.
type ownRanges struct {
	nodes    corelisters.NodeLister
	services networkinglisters.ServiceCIDRLister
	servers  discoverylisters.EndpointSliceLister
}

func newOwnRanges(config *Config) ownRanges {
	return ownRanges{
		nodes:    config.KubeInformers.Core().V1().Nodes().Lister(),
		services: config.KubeInformers.Networking().V1().ServiceCIDRs().Lister(),
		servers:  config.ServerInformers.Discovery().V1().EndpointSlices().Lister(),
	}
}

// ServerInformers are the options of informers that see where this cluster's API
// servers are: the EndpointSlices of Service kubernetes.
func ServerInformers() []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(metav1.NamespaceDefault),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = labels.Set{discoveryv1.LabelServiceName: "kubernetes"}.String()
		}),
	}
}

// beside are those that no range which is named has in it, in order, and without
// those that another one has. There is room for so many; left is how many more
// there are.
func (o ownRanges) beside(named []string, room int) (ranges []string, left int, err error) {
	nodes, err := o.nodes.List(everything)
	if err != nil {
		return nil, 0, err
	}
	services, err := o.services.List(everything)
	if err != nil {
		return nil, 0, err
	}
	servers, err := o.servers.List(everything)
	if err != nil {
		return nil, 0, err
	}
	var known, all []netip.Prefix
	for _, text := range named {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			known = append(known, prefix)
		}
	}
	add := func(texts ...string) {
		for _, text := range texts {
			if prefix, ok := rangeOf(text); ok {
				all = append(all, prefix)
			}
		}
	}
	for _, service := range services {
		add(service.Spec.CIDRs...)
	}
	for _, slice := range servers {
		for _, endpoint := range slice.Endpoints {
			add(endpoint.Addresses...)
		}
	}
	for _, node := range nodes {
		if node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode {
			continue
		}
		add(node.Spec.PodCIDRs...)
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
				add(address.Address)
			}
		}
	}
	// The larger ones first: they have others in them, and are worth more.
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	for _, prefix := range all {
		if slices.ContainsFunc(known, func(k netip.Prefix) bool { return k.Bits() <= prefix.Bits() && k.Contains(prefix.Addr()) }) {
			continue
		}
		known = append(known, prefix)
		if len(ranges) < room {
			ranges = append(ranges, prefix.String())
		} else {
			left++
		}
	}
	return ranges, left, nil
}

// rangeOf is the range of a CIDR, or of an address alone; false if no pool may
// name it.
func rangeOf(text string) (netip.Prefix, bool) {
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
	return prefix, len(validation.ValidateCIDR(prefix.String(), field.NewPath("reserved"))) == 0
}

// sameRanges tells whether a node has what it had before.
func sameRanges(a, b *corev1.Node) bool {
	return slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) && equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses)
}

// sameServices tells whether a ServiceCIDR is what it was before.
func sameServices(a, b *networkingv1.ServiceCIDR) bool {
	return slices.Equal(a.Spec.CIDRs, b.Spec.CIDRs)
}

// sameServers tells whether API servers are where they were before.
func sameServers(a, b *discoveryv1.EndpointSlice) bool {
	return slices.EqualFunc(a.Endpoints, b.Endpoints, func(a, b discoveryv1.Endpoint) bool { return slices.Equal(a.Addresses, b.Addresses) })
}
