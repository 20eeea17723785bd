// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Reasons of the condition Ready of a ShadowEndpointSlice.
const (
	reasonReachable        = "Reachable"
	reasonNoConsumer       = "NoConsumer"
	reasonNoNetwork        = "NoNetwork"
	reasonConsumerSilent   = "ConsumerSilent"
	reasonAddressesRefused = "AddressesRefused"
	reasonServicesUnknown  = "ServiceCIDRsUnknown"
)

var sliceKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowEndpointSlice")

// verdict says whether endpoints can be reached, and why not.
type verdict struct {
	ready           bool
	reason, message string
}

// reachability is whether the endpoints of a consumer can be reached; nil is a
// consumer that is gone.
func reachability(cluster *v1alpha1.ForeignCluster) verdict {
	switch {
	case cluster == nil || cluster.DeletionTimestamp != nil:
		return verdict{reason: reasonNoConsumer, message: "The consumer is leaving, or gone; no endpoint is ready."}
	case cluster.Status.Networking != v1alpha1.PeeringEstablished:
		return verdict{reason: reasonNoNetwork, message: "The provider's administrators know of no network between the pods of both clusters, see spec.networking of the ForeignCluster; there is no EndpointSlice."}
	case isSilent(cluster):
		return verdict{reason: reasonConsumerSilent, message: "The consumer gives no sign of life; no endpoint is ready."}
	}
	return verdict{ready: true, reason: reasonReachable, message: "The endpoints that are ready at home are ready here."}
}

// territory are the addresses that no endpoint of another cluster has.
type territory struct {
	nodes    map[netip.Addr]bool
	prefixes []netip.Prefix
	// tunnel are the ranges that a tunnel leads to, where there is one: nothing
	// outside of them is the other cluster's.
	tunnel []netip.Prefix
}

// territoryOf are the addresses of the nodes of this cluster, those that they
// give their pods, those of its Services, and the refused ones. Traffic that a
// consumer has sent to them would come from this cluster itself.
func territoryOf(nodes []*corev1.Node, services []*networkingv1.ServiceCIDR, refused []netip.Prefix) territory {
	own := territory{nodes: map[netip.Addr]bool{}, prefixes: slices.Clone(refused)}
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(address.Address); err == nil {
				own.nodes[parsed.Unmap()] = true
			}
		}
		own.add(node.Spec.PodCIDRs)
	}
	for _, service := range services {
		own.add(service.Spec.CIDRs)
	}
	return own
}

func (t *territory) add(cidrs []string) {
	for _, cidr := range cidrs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			t.prefixes = append(t.prefixes, prefix)
		}
	}
}

// rangesOf are what this cluster calls the ranges at the other end of a tunnel.
func rangesOf(tunnel *v1alpha1.TunnelEndpoint) []netip.Prefix {
	var all []netip.Prefix
	for _, agreed := range tunnel.Spec.Remote {
		if prefix, err := netip.ParsePrefix(agreed.Mapped); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

func (t territory) contains(raw string) bool {
	address, err := netip.ParseAddr(raw)
	if err != nil || t.nodes[address] {
		return true
	}
	within := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	return slices.ContainsFunc(t.prefixes, within) || len(t.tunnel) > 0 && !slices.ContainsFunc(t.tunnel, within)
}

// sliceFor is the EndpointSlice of a shadow one in a twin namespace. The twin
// says where it comes from: what a peer writes about itself does not count. It
// also returns how many endpoints were left out.
func sliceFor(shadow *v1alpha1.ShadowEndpointSlice, twin *corev1.Namespace, reachable bool, own territory) (*discoveryv1.EndpointSlice, int) {
	from := shadow.DeepCopy()
	labels := maps.Clone(from.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	// What is imported here, and from where, is not for a peer to say.
	delete(labels, mcsv1alpha1.LabelServiceName)
	delete(labels, mcsv1alpha1.LabelSourceCluster)
	// Kubernetes' own controller looks after those that have its name here.
	labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	labels[v1alpha1.LabelOrigin] = twin.Labels[v1alpha1.LabelOrigin]
	labels[v1alpha1.LabelDestination] = twin.Labels[v1alpha1.LabelDestination]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: from.Name, Namespace: from.Namespace, Labels: labels,
			// Nothing has to wait for its end, so it blocks nobody's deletion.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: sliceKind.GroupVersion().String(), Kind: sliceKind.Kind, Name: from.Name, UID: from.UID, Controller: ptr.To(true),
			}},
		},
		AddressType: from.Spec.AddressType,
		Ports:       from.Spec.Ports,
	}
	left := 0
	for _, endpoint := range from.Spec.Endpoints {
		if endpoint.Addresses = slices.DeleteFunc(endpoint.Addresses, own.contains); len(endpoint.Addresses) == 0 {
			left++
			continue
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  endpoint.Addresses,
			Hostname:   endpoint.Hostname,
			Conditions: conditionsOf(endpoint.Conditions, reachable),
		})
	}
	return slice, left
}

// conditionsOf are the conditions of an endpoint that can be reached, or not.
// What is not said means what it means in an EndpointSlice. An endpoint that is
// not ready may yet be used while it is serving, so neither is it that.
func conditionsOf(home discoveryv1.EndpointConditions, reachable bool) discoveryv1.EndpointConditions {
	ready := ptr.Deref(home.Ready, true)
	return discoveryv1.EndpointConditions{
		Ready:       ptr.To(reachable && ready),
		Serving:     ptr.To(reachable && ptr.Deref(home.Serving, ready)),
		Terminating: ptr.To(ptr.Deref(home.Terminating, false)),
	}
}

// bring makes an EndpointSlice the wanted one, and tells whether something
// changed. Annotations are not ours.
func bring(existing, wanted *discoveryv1.EndpointSlice) bool {
	if maps.Equal(existing.Labels, wanted.Labels) && equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(existing.Ports, wanted.Ports) && equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {
		return false
	}
	existing.Labels, existing.OwnerReferences = wanted.Labels, wanted.OwnerReferences
	existing.Ports, existing.Endpoints = wanted.Ports, wanted.Endpoints
	return true
}

// judged is the verdict after endpoints were left out.
func judged(v verdict, left, remain int) verdict {
	if !v.ready || left == 0 {
		return v
	}
	return verdict{ready: remain > 0, reason: reasonAddressesRefused, message: fmt.Sprintf(
		"%d of %d endpoints are left out: their addresses are those of the provider's nodes, pods or Services, refused by its administrators, or not led to by the tunnel.", left, left+remain)}
}

// ownedByShadow tells whether an EndpointSlice was made of a shadow one of its
// name, maybe of one that is gone.
func ownedByShadow(slice *discoveryv1.EndpointSlice) bool {
	owner := metav1.GetControllerOf(slice)
	return owner != nil && owner.Kind == sliceKind.Kind && owner.APIVersion == sliceKind.GroupVersion().String() && owner.Name == slice.Name
}
