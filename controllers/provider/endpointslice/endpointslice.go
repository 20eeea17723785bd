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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
)

// Reasons of the condition Ready of a ShadowEndpointSlice.
const (
	// reasonReachable means that pods of the consumer can be reached, so that its ready endpoints are ready in the
	// EndpointSlice.
	reasonReachable = "Reachable"
	// reasonNoConsumer means that the incoming peering has ended.
	reasonNoConsumer = "NoConsumer"
	// reasonNoNetwork means that networking of the provider's ForeignCluster is None, or the clusters have not agreed
	// on a tunnel. Set spec.networking of the ForeignCluster, and read its condition Networking.
	reasonNoNetwork = "NoNetwork"
	// reasonHeartbeatExpired means that the consumer's heartbeat expired. Check the consumer's controller manager.
	reasonHeartbeatExpired = "HeartbeatExpired"
	// reasonAddressesRefused means that at least one endpoint is left out, because its addresses are refused; the
	// condition is False if all endpoints are left out. If the clusters have common addresses, set networking to None
	// or Tunnel.
	reasonAddressesRefused = "AddressesRefused"
	// reasonServicesUnknown means that the range of the provider's Services is unknown. Add the range to
	// policy.refusedEndpointCIDRs of the provider.
	reasonServicesUnknown = "ServiceCIDRsUnknown"
	// reasonPodsUnknown means that the trust in the consumer is Tenant, networking is Flat, and the range of the
	// provider's pods is unknown, or derived from running pods. Set network.podCIDRs of the provider.
	reasonPodsUnknown = "PodCIDRsUnknown"
	// reasonConflict means that another client created an EndpointSlice of this name, which is not changed. Delete it:
	// the ShadowEndpointSlice is retried within half a minute.
	reasonConflict = "NameConflict"
	// reasonNotRemote means that the namespace is not a remote namespace. Restore the labels of the namespace.
	reasonNotRemote = "NotARemoteNamespace"
)

var sliceKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowEndpointSlice")

// readiness states whether the endpoints of a consumer can be reached, with the reason and message of
// the condition Ready.
type readiness struct {
	ready           bool
	reason, message string
}

var (
	notRemote = readiness{reason: reasonNotRemote,
		message: "The namespace is not the remote namespace of a consumer, so no EndpointSlice is created."}
	inConflict = readiness{reason: reasonConflict,
		message: "The provider has an EndpointSlice of this name that was not created for a shadow endpoint slice, " +
			"and does not change it."}
	servicesUnknown = readiness{reason: reasonServicesUnknown,
		message: "No EndpointSlice is created, because the CIDRs of the provider's Services are unknown: its ClusterInfo " +
			"has none, and its administrators configured no refused CIDRs."}
	podsUnknown = readiness{reason: reasonPodsUnknown,
		message: "No EndpointSlice is created, because the provider cannot refuse the addresses of its own pods: its " +
			"ClusterInfo has no CIDR of pods, or one that is derived from running pods. The provider's administrator sets " +
			"network.podCIDRs."}
	noTunnel = readiness{reason: reasonNoNetwork,
		message: "The clusters have no tunnel yet, so no EndpointSlice is created."}
)

// reachability returns the readiness of the EndpointSlices of a consumer. cluster is nil if its ForeignCluster was
// deleted.
func reachability(cluster *v1alpha1.ForeignCluster) readiness {
	switch {
	case cluster == nil || cluster.DeletionTimestamp != nil:
		return readiness{reason: reasonNoConsumer, message: "The peering ends or has ended; no endpoint is ready."}
	case cluster.Status.Networking != v1alpha1.PeeringEstablished:
		return readiness{reason: reasonNoNetwork, message: "No EndpointSlice is created, because the pods of both clusters " +
			"cannot reach each other: see spec.networking of the provider's ForeignCluster."}
	case meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionConsumerAlive):
		return readiness{reason: reasonHeartbeatExpired,
			message: "The heartbeat of the consumer expired; no endpoint is ready."}
	}
	return readiness{ready: true, reason: reasonReachable, message: "Endpoints that are ready on the consumer are ready."}
}

// without returns the readiness of an EndpointSlice that lacks endpoints whose addresses are refused. left is the
// number of these endpoints, and remain the number of all others.
func (s readiness) without(left, remain int) readiness {
	if !s.ready || left == 0 {
		return s
	}
	return readiness{ready: remain > 0, reason: reasonAddressesRefused, message: fmt.Sprintf(
		"%d of %d endpoints are left out: their addresses belong to the provider's nodes, pods or Services, are refused "+
			"by its administrators, or are outside of the ranges of the tunnel.", left, left+remain)}
}

// rangesOf returns the ranges in which this cluster reaches the pods and other endpoints of the peer of a tunnel.
func rangesOf(tunnel *v1alpha1.TunnelEndpoint) []netip.Prefix {
	var all []netip.Prefix
	for _, agreed := range tunnel.Spec.Remote {
		if prefix, err := netip.ParsePrefix(agreed.Mapped); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// sliceFor returns the desired EndpointSlice for a ShadowEndpointSlice in a remote namespace, and the number of
// endpoints that it lacks because filter refuses all their addresses. The label with the consumer is copied from the
// namespace, never from labels that the peer wrote.
func sliceFor(
	shadow *v1alpha1.ShadowEndpointSlice, namespace *corev1.Namespace, reachable bool, filter netmap.AddressFilter,
) (*discoveryv1.EndpointSlice, int) {
	from := shadow.DeepCopy()
	labels := maps.Clone(from.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	// With these labels, the peer could add endpoints to a ServiceImport of this cluster.
	delete(labels, mcsv1alpha1.LabelServiceName)
	delete(labels, mcsv1alpha1.LabelSourceCluster)
	// The label keeps the EndpointSlice controller of Kubernetes from managing the EndpointSlice.
	labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	labels[v1alpha1.LabelOrigin] = namespace.Labels[v1alpha1.LabelOrigin]
	labels[v1alpha1.LabelDestination] = namespace.Labels[v1alpha1.LabelDestination]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: from.Name, Namespace: from.Namespace, Labels: labels,
			// BlockOwnerDeletion is not set, because the owner need not wait for this object.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: sliceKind.GroupVersion().String(), Kind: sliceKind.Kind,
				Name: from.Name, UID: from.UID, Controller: ptr.To(true),
			}},
		},
		AddressType: from.Spec.AddressType,
		Ports:       from.Spec.Ports,
	}
	left := 0
	refused := func(address string) bool { return !filter.Permits(address) }
	for _, endpoint := range from.Spec.Endpoints {
		if endpoint.Addresses = slices.DeleteFunc(endpoint.Addresses, refused); len(endpoint.Addresses) == 0 {
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

// conditionsOf returns the conditions of an endpoint: the consumer's if it is reachable, otherwise
// neither ready nor serving, because proxies may use an endpoint that is serving and not ready. A nil
// field means the same as in an EndpointSlice.
func conditionsOf(consumer discoveryv1.EndpointConditions, reachable bool) discoveryv1.EndpointConditions {
	ready := ptr.Deref(consumer.Ready, true)
	return discoveryv1.EndpointConditions{
		Ready:       ptr.To(reachable && ready),
		Serving:     ptr.To(reachable && ptr.Deref(consumer.Serving, ready)),
		Terminating: ptr.To(ptr.Deref(consumer.Terminating, false)),
	}
}

// ownedByShadow reports whether an EndpointSlice was created for a ShadowEndpointSlice of the same name, even
// if the latter was deleted.
func ownedByShadow(slice *discoveryv1.EndpointSlice) bool {
	owner := metav1.GetControllerOf(slice)
	return owner != nil && owner.Kind == sliceKind.Kind &&
		owner.APIVersion == sliceKind.GroupVersion().String() && owner.Name == slice.Name
}
