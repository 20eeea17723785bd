// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

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

// View is how endpoints look from a provider.
type View struct {
	// Lives tells whether what is on a node lives on the provider.
	Lives func(node string) bool
	// Address is what an address is reached at from the provider; false if it is
	// not reached.
	Address func(address string) (string, bool)
}

// SameAddress is the address itself: in a flat network each is reached from
// everywhere.
func SameAddress(address string) (string, bool) { return address, true }

// EndpointSlice is what a provider is asked for so that the endpoints of a
// local EndpointSlice that do not live there are endpoints of the Service's
// copy, too; nil if there are none. Nodes, zones and the objects behind them
// mean nothing there.
func EndpointSlice(local *discoveryv1.EndpointSlice, twin string, to Destination, view View) *v1alpha1.ShadowEndpointSlice {
	service := local.Labels[discoveryv1.LabelServiceName]
	switch {
	case reflection.StaysHome(local), service == "", isKubernetes(local.Namespace, service):
		return nil
	case local.Labels[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy:
		// These came from a consumer of this cluster.
		return nil
	case local.AddressType != discoveryv1.AddressTypeIPv4 && local.AddressType != discoveryv1.AddressTypeIPv6:
		return nil
	}
	from := local.DeepCopy()
	spec := v1alpha1.ShadowEndpointSliceSpec{AddressType: from.AddressType, Ports: from.Ports}
	for _, endpoint := range from.Endpoints {
		if endpoint.NodeName != nil && view.Lives(*endpoint.NodeName) {
			continue
		}
		if addresses := seen(endpoint.Addresses, from.AddressType, view); len(addresses) > 0 {
			spec.Endpoints = append(spec.Endpoints, v1alpha1.ShadowEndpoint{Addresses: addresses, Conditions: endpoint.Conditions, Hostname: endpoint.Hostname})
		}
	}
	if len(spec.Endpoints) == 0 {
		return nil
	}
	from.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	delete(from.Annotations, corev1.EndpointsLastChangeTriggerTime)
	return &v1alpha1.ShadowEndpointSlice{ObjectMeta: copyMeta(from, local.Name, twin, to), Spec: spec}
}

// seen are addresses as the provider reaches them, without those that lead
// nowhere from there, or to its own nodes.
func seen(addresses []string, family discoveryv1.AddressType, view View) []string {
	var result []string
	for _, address := range addresses {
		if there, ok := view.Address(address); ok && len(validation.EndpointAddress(there, family, nil)) == 0 {
			result = append(result, there)
		}
	}
	return result
}

// UpdateEndpointSlice makes an existing copy the wanted one.
func UpdateEndpointSlice(existing, wanted *v1alpha1.ShadowEndpointSlice) Change {
	if existing.Spec.AddressType != wanted.Spec.AddressType {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &wanted.ObjectMeta)
	if spec := withDefaults(wanted.Spec); !equality.Semantic.DeepEqual(existing.Spec, spec) {
		existing.Spec, differs = spec, true
	}
	return changed(differs)
}

func withDefaults(spec v1alpha1.ShadowEndpointSliceSpec) v1alpha1.ShadowEndpointSliceSpec {
	spec = *spec.DeepCopy()
	v1alpha1.SetDefaults_ShadowEndpointSliceSpec(&spec)
	return spec
}

// SendsEndpoints tells whether an EndpointSlice is to be copied: its Service is
// copied, which that of the API server is not, and the policy of EndpointSlices
// does not keep it home. They are made by controllers, so the word of the
// Service's owner counts for them, where they have no annotations of their own.
func SendsEndpoints(services, slices Policy, service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	if service == nil || isKubernetes(service.Namespace, service.Name) || !services.Sends(service) {
		return false
	}
	annotations := maps.Clone(service.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, slice.Annotations)
	return slices.Sends(&metav1.ObjectMeta{Annotations: annotations})
}
