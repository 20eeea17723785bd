// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/link/clusterinfo"
)

// local has the addresses of this cluster, and the addresses that pods reach through its tunnels.
type local struct {
	reader client.Reader
	// ranges are the ranges of this cluster, the ranges at which it reaches its peers, metadata services, and the
	// field Refused of EndpointReconciler.
	ranges []netip.Prefix
	// virtualNodes are the names of the virtual nodes.
	virtualNodes sets.Set[string]
	// hosts are the addresses of nodes; nil until they are needed.
	hosts sets.Set[string]
}

// local reads the addresses of this cluster, except the addresses of its nodes.
func (r *EndpointReconciler) local(ctx context.Context) (*local, error) {
	info, err := clusterinfo.Get(ctx, r.Client)
	if err != nil {
		return nil, fmt.Errorf("reading the ranges of this cluster: %w", err)
	}
	own := netmap.RangesOf(info)
	pool, err := externalPool(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	tunnels, err := r.tunnels(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.virtualNodes(ctx)
	if err != nil {
		return nil, err
	}
	var cidrs []string
	if pool != nil {
		cidrs = pool.Spec.CIDRs
	}
	for i := range tunnels {
		cidrs = append(cidrs, mappedCIDRs(&tunnels[i])...)
	}
	l := &local{
		reader: r.Client, ranges: slices.Concat(own.Pods, own.Services, own.Nodes, own.External, netmap.APIServers(info),
			netmap.MetadataServices, r.Refused, netmap.ParseCIDRs(cidrs)),
		virtualNodes: sets.New[string](),
	}
	for i := range nodes {
		l.virtualNodes.Insert(nodes[i].Spec.NodeName)
	}
	return l, nil
}

// outsiders returns the addresses of an EndpointSlice's endpoints, except those of nodes, those in l.ranges,
// and those of pods on virtual nodes. It returns none for an EndpointSlice that this project created. A user who may
// write only EndpointSlices could otherwise expose these addresses to a peer, whose packets reach them from the
// gateway's node.
func (l *local) outsiders(ctx context.Context, slice *discoveryv1.EndpointSlice) ([]netip.Addr, error) {
	if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 ||
		slice.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy {
		return nil, nil
	}
	var found []netip.Addr
	for _, endpoint := range slice.Endpoints {
		if endpoint.NodeName != nil && l.virtualNodes.Has(*endpoint.NodeName) {
			continue
		}
		for _, text := range endpoint.Addresses {
			address, err := netip.ParseAddr(text)
			if err == nil && len(validation.EndpointAddress(text, slice.AddressType, nil)) == 0 && !l.inRange(address) {
				found = append(found, address)
			}
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	if err := l.readHosts(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(address netip.Addr) bool { return l.hosts.Has(address.String()) }), nil
}

func (l *local) inRange(address netip.Addr) bool {
	return slices.ContainsFunc(l.ranges, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// readHosts reads the addresses of the nodes once.
func (l *local) readHosts(ctx context.Context) error {
	if l.hosts != nil {
		return nil
	}
	var nodes corev1.NodeList
	if err := l.reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	l.hosts = sets.New[string]()
	for i := range nodes.Items {
		for _, of := range nodes.Items[i].Status.Addresses {
			l.hosts.Insert(of.Address)
		}
	}
	return nil
}
