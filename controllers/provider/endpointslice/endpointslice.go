// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
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
	reasonHeartbeatExpired = "HeartbeatExpired"
	reasonAddressesRefused = "AddressesRefused"
	reasonServicesUnknown  = "ServiceCIDRsUnknown"
	reasonConflict         = "NameConflict"
	reasonNotRemote        = "NotARemoteNamespace"
)

var sliceKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowEndpointSlice")

// readiness is whether endpoints can be reached, and the reason.
type readiness struct {
	ready           bool
	reason, message string
}

var (
	notRemote = readiness{reason: reasonNotRemote,
		message: "The namespace is not the remote namespace of a consumer; there is no EndpointSlice."}
	inConflict = readiness{reason: reasonConflict,
		message: "The provider has an EndpointSlice of this name that belongs to no shadow endpoint slice; it is " +
			"not changed."}
	servicesUnknown = readiness{reason: reasonServicesUnknown,
		message: "The addresses of the provider's Services are unknown: its ClusterInfo has none, and its administrators " +
			"refuse no CIDR; there is no EndpointSlice."}
	noTunnel = readiness{reason: reasonNoNetwork,
		message: "There is no tunnel between the clusters, and no EndpointSlice."}
)

// reachability returns whether the endpoints of a consumer can be reached; nil is a consumer
// whose ForeignCluster was deleted.
func reachability(cluster *v1alpha1.ForeignCluster) readiness {
	switch {
	case cluster == nil || cluster.DeletionTimestamp != nil:
		return readiness{reason: reasonNoConsumer, message: "The peering ends or has ended; no endpoint is ready."}
	case cluster.Status.Networking != v1alpha1.PeeringEstablished:
		return readiness{reason: reasonNoNetwork, message: "There is no network between the pods of both clusters, see " +
			"spec.networking of the provider's ForeignCluster; there is no EndpointSlice."}
	case meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionConsumerAlive):
		return readiness{reason: reasonHeartbeatExpired,
			message: "The heartbeat of the consumer expired; no endpoint is ready."}
	}
	return readiness{ready: true, reason: reasonReachable, message: "Endpoints that are ready on the consumer are ready."}
}

// without returns the readiness after endpoints were left out.
func (s readiness) without(left, remain int) readiness {
	if !s.ready || left == 0 {
		return s
	}
	return readiness{ready: remain > 0, reason: reasonAddressesRefused, message: fmt.Sprintf(
		"%d of %d endpoints are left out: their addresses are those of the provider's nodes, pods or Services, refused by "+
			"its administrators, or outside of the ranges of the tunnel.", left, left+remain)}
}

// addressFilter refuses addresses that endpoints of another cluster cannot have.
type addressFilter struct {
	prefixes []netip.Prefix
	// services reports whether the ranges of Services are among them.
	services bool
	// tunnel are the ranges of the tunnel, outside of which all addresses are refused; empty
	// without a tunnel.
	tunnel []netip.Prefix
}

// filterOf returns a filter that refuses the addresses of the pods, Services, nodes and API
// servers of this cluster, by its ClusterInfo, and configured ones: a consumer could direct
// traffic of this cluster to them. Pod ranges that were only derived from running pods may
// contain addresses of other clusters, and are not refused.
func filterOf(info *v1alpha1.ClusterInfo, refused []netip.Prefix) addressFilter {
	own := addressFilter{prefixes: slices.Clone(refused)}
	for _, r := range info.Status.Ranges {
		prefix, err := netip.ParsePrefix(r.CIDR)
		switch {
		case err != nil, r.Use == v1alpha1.RangeExternal, r.Use == v1alpha1.RangeReserved && r.Source == v1alpha1.SourceValue,
			r.Use == v1alpha1.RangeOfPods && r.Source == v1alpha1.SourcePod:
			continue
		case r.Use == v1alpha1.RangeOfServices:
			own.services = true
		}
		own.prefixes = append(own.prefixes, prefix)
	}
	return own
}

// rangesOf returns the remote ranges of a tunnel, as they are mapped in this cluster.
func rangesOf(tunnel *v1alpha1.TunnelEndpoint) []netip.Prefix {
	var all []netip.Prefix
	for _, agreed := range tunnel.Spec.Remote {
		if prefix, err := netip.ParsePrefix(agreed.Mapped); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

func (t addressFilter) refuses(raw string) bool {
	address, err := netip.ParseAddr(raw)
	if err != nil {
		return true
	}
	within := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	return slices.ContainsFunc(t.prefixes, within) || len(t.tunnel) > 0 && !slices.ContainsFunc(t.tunnel, within)
}

// sliceFor returns the EndpointSlice of a shadow one in a remote namespace, and how many
// endpoints were left out. The labels of the namespace determine which consumer it belongs
// to: those that a peer writes do not count.
func sliceFor(
	shadow *v1alpha1.ShadowEndpointSlice, namespace *corev1.Namespace, reachable bool, own addressFilter,
) (*discoveryv1.EndpointSlice, int) {
	from := shadow.DeepCopy()
	labels := maps.Clone(from.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	// A peer imports no Services in this cluster.
	delete(labels, mcsv1alpha1.LabelServiceName)
	delete(labels, mcsv1alpha1.LabelSourceCluster)
	// The EndpointSlice controller of Kubernetes manages those with its name.
	labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	labels[v1alpha1.LabelOrigin] = namespace.Labels[v1alpha1.LabelOrigin]
	labels[v1alpha1.LabelDestination] = namespace.Labels[v1alpha1.LabelDestination]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: from.Name, Namespace: from.Namespace, Labels: labels,
			// Its deletion delays none of its owner, so it does not block it.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: sliceKind.GroupVersion().String(), Kind: sliceKind.Kind,
				Name: from.Name, UID: from.UID, Controller: ptr.To(true),
			}},
		},
		AddressType: from.Spec.AddressType,
		Ports:       from.Spec.Ports,
	}
	left := 0
	for _, endpoint := range from.Spec.Endpoints {
		if endpoint.Addresses = slices.DeleteFunc(endpoint.Addresses, own.refuses); len(endpoint.Addresses) == 0 {
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

// conditionsOf returns the conditions of an endpoint that can be reached, or not. What is
// unset means the same as in an EndpointSlice. Proxies may use an endpoint that is not ready
// while it is serving, so one that cannot be reached is neither.
func conditionsOf(consumer discoveryv1.EndpointConditions, reachable bool) discoveryv1.EndpointConditions {
	ready := ptr.Deref(consumer.Ready, true)
	return discoveryv1.EndpointConditions{
		Ready:       ptr.To(reachable && ready),
		Serving:     ptr.To(reachable && ptr.Deref(consumer.Serving, ready)),
		Terminating: ptr.To(ptr.Deref(consumer.Terminating, false)),
	}
}

// apply sets an EndpointSlice to the wanted one, and reports whether it changed. Annotations
// are not changed.
func apply(existing, wanted *discoveryv1.EndpointSlice) bool {
	if maps.Equal(existing.Labels, wanted.Labels) &&
		equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(existing.Ports, wanted.Ports) &&
		equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {
		return false
	}
	existing.Labels, existing.OwnerReferences = wanted.Labels, wanted.OwnerReferences
	existing.Ports, existing.Endpoints = wanted.Ports, wanted.Endpoints
	return true
}

// ownedByShadow reports whether an EndpointSlice belongs to a shadow one of its name, even if
// that was deleted.
func ownedByShadow(slice *discoveryv1.EndpointSlice) bool {
	owner := metav1.GetControllerOf(slice)
	return owner != nil && owner.Kind == sliceKind.Kind &&
		owner.APIVersion == sliceKind.GroupVersion().String() && owner.Name == slice.Name
}
