// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSlice contains endpoints of a reflected Service that are not on the provider.
type ShadowEndpointSlice struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ShadowEndpointSliceSpec
	Status ShadowEndpointSliceStatus
}

// ShadowEndpointSliceSpec is a list of endpoints of one Service.
type ShadowEndpointSliceSpec struct {
	AddressType discoveryv1.AddressType
	Ports       []discoveryv1.EndpointPort
	Endpoints   []ShadowEndpoint
}

// ShadowEndpoint is an endpoint of a Service that is not on the provider.
type ShadowEndpoint struct {
	Addresses  []string
	Conditions discoveryv1.EndpointConditions
	Hostname   *string
}

// ShadowEndpointSliceStatus reports whether the provider can reach the endpoints.
type ShadowEndpointSliceStatus struct {
	Conditions []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
type ShadowEndpointSliceList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ShadowEndpointSlice
}
