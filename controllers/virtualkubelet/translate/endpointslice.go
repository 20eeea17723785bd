// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/reflection"
)

// View has the functions that translate endpoints for the provider.
type View struct {
	// RunsOnProvider reports whether pods of a node run on the provider.
	RunsOnProvider func(node string) bool
	// Address returns the address at which the provider reaches a local address; false if the provider cannot reach it.
	Address func(address string) (string, bool)
}

// SameAddress returns the address and true. It is the Address of a View if addresses are the same in both clusters.
func SameAddress(address string) (string, bool) { return address, true }

// EndpointSlice returns the desired ShadowEndpointSlice of a local EndpointSlice, without the endpoints that run on the
// provider; nil if no endpoint remains or the slice is not reflected. It omits nodes, zones and target references of
// endpoints, which have no meaning on the provider.
func EndpointSlice(
	local *discoveryv1.EndpointSlice,
	namespace string,
	to Destination,
	view View,
) *v1alpha1.ShadowEndpointSlice {
	service := local.Labels[discoveryv1.LabelServiceName]
	switch {
	case reflection.Excludes(local, to.DestinationID), service == "", isKubernetes(local.Namespace, service):
		return nil
	case local.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy:
		// This slice was created from the ShadowEndpointSlice of a consumer of the local cluster.
		return nil
	case local.AddressType != discoveryv1.AddressTypeIPv4 && local.AddressType != discoveryv1.AddressTypeIPv6:
		return nil
	}
	from := local.DeepCopy()
	spec := v1alpha1.ShadowEndpointSliceSpec{AddressType: from.AddressType, Ports: from.Ports}
	for _, endpoint := range from.Endpoints {
		if endpoint.NodeName != nil && view.RunsOnProvider(*endpoint.NodeName) {
			continue
		}
		if addresses := reachableAddresses(endpoint.Addresses, from.AddressType, view); len(addresses) > 0 {
			spec.Endpoints = append(spec.Endpoints, v1alpha1.ShadowEndpoint{
				Addresses: addresses, Conditions: endpoint.Conditions, Hostname: endpoint.Hostname,
			})
		}
	}
	if len(spec.Endpoints) == 0 {
		return nil
	}
	from.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	delete(from.Annotations, corev1.EndpointsLastChangeTriggerTime)
	return &v1alpha1.ShadowEndpointSlice{ObjectMeta: reflectedMeta(from, local.Name, namespace, to), Spec: spec}
}

// reachableAddresses returns the addresses at which the provider reaches an endpoint. It omits addresses that the
// provider cannot reach, and results that are not valid in an EndpointSlice, for example loopback addresses.
func reachableAddresses(addresses []string, family discoveryv1.AddressType, view View) []string {
	var result []string
	for _, address := range addresses {
		if remote, ok := view.Address(address); ok && len(validation.EndpointAddress(remote, family, nil)) == 0 {
			result = append(result, remote)
		}
	}
	return result
}

// UpdateEndpointSlice changes an existing ShadowEndpointSlice into the desired one. It returns Replace if the immutable
// address type differs.
func UpdateEndpointSlice(existing, desired *v1alpha1.ShadowEndpointSlice) Change {
	if existing.Spec.AddressType != desired.Spec.AddressType {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &desired.ObjectMeta)
	if spec := withDefaults(desired.Spec); !equality.Semantic.DeepEqual(existing.Spec, spec) {
		existing.Spec, differs = spec, true
	}
	return changed(differs)
}

func withDefaults(spec v1alpha1.ShadowEndpointSliceSpec) v1alpha1.ShadowEndpointSliceSpec {
	spec = *spec.DeepCopy()
	v1alpha1.SetDefaults_ShadowEndpointSliceSpec(&spec)
	return spec
}

// ReflectsEndpoints reports whether an EndpointSlice is reflected: its Service is reflected and is not the API
// server's, and the policy for EndpointSlices selects the slice. Annotations of the Service that the slice does not
// have apply to the slice, too, because controllers create most slices.
func ReflectsEndpoints(services, slices Policy, service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	if service == nil || isKubernetes(service.Namespace, service.Name) || !services.Reflects(service) {
		return false
	}
	annotations := maps.Clone(service.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, slice.Annotations)
	return slices.Reflects(&metav1.ObjectMeta{Annotations: annotations})
}
