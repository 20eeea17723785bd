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

// View describes endpoints as the provider reaches them.
type View struct {
	// RunsOnProvider reports whether the pods of a node run on the provider.
	RunsOnProvider func(node string) bool
	// Address returns the address at which the provider reaches an address of this cluster; false
	// if it does not.
	Address func(address string) (string, bool)
}

// SameAddress returns the address itself. It is the Address of a View in a flat network.
func SameAddress(address string) (string, bool) { return address, true }

// EndpointSlice returns the ShadowEndpointSlice with the endpoints of a local EndpointSlice that
// do not run on the provider; nil if there are none. Nodes, zones and target references are
// omitted: they have no meaning on the provider.
func EndpointSlice(
	local *discoveryv1.EndpointSlice,
	namespace string,
	to Destination,
	view View,
) *v1alpha1.ShadowEndpointSlice {
	service := local.Labels[discoveryv1.LabelServiceName]
	switch {
	case reflection.SkipsReflection(local), service == "", isKubernetes(local.Namespace, service):
		return nil
	case local.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy:
		// The slice was created for a consumer of the local cluster.
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

// reachableAddresses returns the addresses as the provider reaches them. It omits those that the provider does not
// reach or that are not valid for endpoints, for example loopback addresses.
func reachableAddresses(addresses []string, family discoveryv1.AddressType, view View) []string {
	var result []string
	for _, address := range addresses {
		if remote, ok := view.Address(address); ok && len(validation.EndpointAddress(remote, family, nil)) == 0 {
			result = append(result, remote)
		}
	}
	return result
}

// UpdateEndpointSlice changes an existing ShadowEndpointSlice into the desired one.
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

// ReflectsEndpoints reports whether an EndpointSlice is reflected: its Service is reflected and not the one of the API
// server, and the policy of EndpointSlices selects the slice. A slice inherits the annotations of its Service, because
// users do not create slices.
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
