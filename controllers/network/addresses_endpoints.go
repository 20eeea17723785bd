// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// endpointsSettle is how long a change of a Service or of its endpoints may bring others
// with it.
const endpointsSettle = 200 * time.Millisecond

// ReasonTooManyPorts says that an endpoint that is no pod has more ports than a
// mapping is bounded to.
const ReasonTooManyPorts = "TooManyPorts"

// keysOf leads to what is reconciled for the endpoints of namespaces.
func keysOf(namespaces sets.Set[string]) []cache.ObjectName {
	var keys []cache.ObjectName
	for namespace := range namespaces {
		keys = append(keys, cache.ObjectName{Namespace: namespace})
	}
	return keys
}

// onEndpoints looks at a namespace whose Services or EndpointSlices have changed.
// Most endpoints are pods, which come and go, and are none of its business.
func (a *podAddresses) onEndpoints(look func(namespace string)) cache.ResourceEventHandler {
	see := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		switch object := object.(type) {
		case *corev1.Service:
			look(object.Namespace)
		case *discoveryv1.EndpointSlice:
			if len(a.outsiders(object)) > 0 {
				look(object.Namespace)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(old, object any) { see(old); see(object) },
		DeleteFunc: see,
	}
}

// outsiders are the endpoints of an EndpointSlice that are neither pods of this
// cluster nor of another one, nor anything of this cluster's own, as its nodes:
// a mapping would open these to another cluster because somebody who may write
// EndpointSlices wants it so.
func (a *podAddresses) outsiders(slice *discoveryv1.EndpointSlice) []netip.Addr {
	if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 ||
		slice.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy {
		return nil
	}
	var found []netip.Addr
	for _, endpoint := range slice.Endpoints {
		if endpoint.NodeName != nil && a.isVirtual(*endpoint.NodeName) {
			continue
		}
		for _, text := range endpoint.Addresses {
			address, err := netip.ParseAddr(text)
			if err == nil && len(validation.EndpointAddress(text, slice.AddressType, nil)) == 0 && !a.isKnown(address) {
				found = append(found, address)
			}
		}
	}
	return found
}

// isVirtual tells whether a node stands for a provider.
func (a *podAddresses) isVirtual(name string) bool {
	// Listing a cache fails only with a selector that cannot be read.
	nodes, _ := a.virtualNodes.List(everything)
	return slices.ContainsFunc(nodes, func(node *v1alpha1.VirtualNode) bool { return node.Spec.NodeName == name })
}

// isKnown tells whether an address is of this cluster, or leads through a tunnel.
func (a *podAddresses) isKnown(address netip.Addr) bool {
	within := func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Contains(address)
	}
	ranges := ownRanges(a.infos)
	own := [][]string{texts(ranges.Pods), texts(ranges.Services), texts(ranges.Nodes), texts(ranges.External)}
	if pool, err := a.pools.Get(ExternalAddressPool); err == nil {
		own = append(own, pool.Spec.CIDRs)
	}
	if slices.ContainsFunc(own, func(cidrs []string) bool { return slices.ContainsFunc(cidrs, within) }) {
		return true
	}
	// Listing a cache fails only with a selector that cannot be read.
	tunnels, _ := a.endpoints.List(everything)
	for _, tunnel := range tunnels {
		if slices.ContainsFunc(tunnel.Spec.Remote, func(agreed v1alpha1.CIDRMapping) bool { return within(agreed.Mapped) }) {
			return true
		}
	}
	nodes, _ := a.nodes.List(everything)
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool {
		return slices.ContainsFunc(
			node.Status.Addresses,
			func(of corev1.NodeAddress) bool { return of.Address == address.String() },
		)
	})
}

// wantedEndpoints are the mappings of those endpoints of a namespace's Services
// that are no pods: one for each address and each provider that the namespace
// extends to and that there is a tunnel to, bounded to the ports of the Services.
// complete is false while they are not known.
func (a *podAddresses) wantedEndpoints(
	ctx context.Context,
	namespace string,
) (wanted map[string]*v1alpha1.AddressMapping, complete bool, err error) {
	extending, err := a.extending(namespace)
	if err != nil {
		return nil, false, err
	}
	if len(extending) == 0 {
		a.forgetServices(namespace)
		return nil, true, nil
	}
	watch, err := a.services(ctx, namespace)
	if err != nil || watch == nil {
		return nil, false, err
	}
	wanted = map[string]*v1alpha1.AddressMapping{}
	for _, reader := range extending {
		ports, err := a.called(watch, reader)
		if err != nil {
			return nil, false, err
		}
		for address, ports := range ports {
			mapping := a.single(reader.name, reader.clusterID, a.ClusterID, cache.ObjectName{Namespace: namespace}, address)
			if mapping.Spec.Ports = inOrder(ports); len(mapping.Spec.Ports) > v1alpha1.MaxAddressMappingPorts {
				a.tell(
					mapping,
					ReasonTooManyPorts,
					"Endpoint %s is no pod, and has more than the %d ports that other clusters can call it at.",
					address,
					v1alpha1.MaxAddressMappingPorts,
				)
				continue
			}
			wanted[mapping.Name] = mapping
		}
	}
	return wanted, true, nil
}

// extension is a provider that a namespace extends to, and that there is a tunnel
// to.
type extension struct {
	name, clusterID string
	// services and slices are what is sent there of both.
	services, slices translate.Policy
}

// extending are the providers that a namespace extends to.
func (a *podAddresses) extending(namespace string) ([]extension, error) {
	all, err := a.maps.List(everything)
	if err != nil {
		return nil, err
	}
	var found []extension
	for _, m := range all {
		if !naming.IsPeerNamespace(m.Namespace) || !extends(m, namespace) {
			continue
		}
		name := naming.ForeignClusterOf(m.Namespace)
		tunnel, err := a.tunnel(name)
		if err != nil {
			return nil, err
		}
		nodes, err := a.virtualNodes.VirtualNodes(m.Namespace).List(everything)
		if err != nil {
			return nil, err
		}
		if tunnel == nil {
			continue
		}
		if node := reflection.DecidingVirtualNode(nodes, tunnel.Spec.ClusterID); node != nil {
			found = append(found, extension{
				name: name, clusterID: tunnel.Spec.ClusterID,
				services: translate.PolicyOf(&node.Spec.Reflection, corev1.Resource("services")),
				slices:   translate.PolicyOf(&node.Spec.Reflection, discoveryv1.Resource("endpointslices")),
			})
		}
	}
	return found, nil
}

// called are the ports that a provider is to call each endpoint at that is no
// pod, by the Services of a namespace that are sent there.
func (a *podAddresses) called(
	watch *watches.NamespaceServices,
	by extension,
) (map[netip.Addr]sets.Set[v1alpha1.AddressMappingPort], error) {
	all, err := watch.Slices.List(everything)
	if err != nil {
		return nil, err
	}
	called := map[netip.Addr]sets.Set[v1alpha1.AddressMappingPort]{}
	for _, slice := range all {
		outsiders := a.outsiders(slice)
		if len(outsiders) == 0 {
			continue
		}
		service, err := watch.Services.Get(slice.Labels[discoveryv1.LabelServiceName])
		if err != nil || !translate.ReflectsEndpoints(by.services, by.slices, service, slice) {
			// Without its Service nobody calls it. That it comes is an event.
			continue
		}
		for _, port := range slice.Ports {
			if port.Port == nil || port.Protocol == nil {
				continue
			}
			for _, address := range outsiders {
				if called[address] == nil {
					called[address] = sets.New[v1alpha1.AddressMappingPort]()
				}
				called[address].Insert(v1alpha1.AddressMappingPort{Protocol: *port.Protocol, Port: *port.Port})
			}
		}
	}
	return called, nil
}

func inOrder(ports sets.Set[v1alpha1.AddressMappingPort]) []v1alpha1.AddressMappingPort {
	return slices.SortedFunc(maps.Keys(ports), func(a, b v1alpha1.AddressMappingPort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
}
