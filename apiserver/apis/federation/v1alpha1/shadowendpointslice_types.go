// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSlice are endpoints of a Service that live elsewhere than on
// the provider. The provider keeps an EndpointSlice of its name, whose
// endpoints are ready only while they can be reached.
type ShadowEndpointSlice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The label
	// kubernetes.io/service-name names the Service in the same namespace; the
	// EndpointSlice gets all labels.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec are the endpoints as the consumer knows them.
	Spec ShadowEndpointSliceSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is whether they can be reached.
	// +optional
	Status ShadowEndpointSliceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowEndpointSliceSpec are the endpoints as the consumer knows them.
type ShadowEndpointSliceSpec struct {
	// addressType is the family of all addresses, IPv4 or IPv6. It cannot
	// change. Names are not for endpoints of others.
	AddressType discoveryv1.AddressType `json:"addressType" protobuf:"bytes,1,opt,name=addressType,casttype=k8s.io/api/discovery/v1.AddressType"`
	// ports are those of every endpoint, as in an EndpointSlice; at most 100.
	// +optional
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty" protobuf:"bytes,2,rep,name=ports"`
	// endpoints are those that do not live on the provider; at most 1000, with
	// at most 1000 addresses together.
	// +optional
	// +listType=atomic
	Endpoints []ShadowEndpoint `json:"endpoints,omitempty" protobuf:"bytes,3,rep,name=endpoints"`
}

// ShadowEndpoint is one endpoint that lives elsewhere. Which node and zone it
// is in means nothing on the provider.
type ShadowEndpoint struct {
	// addresses are those that the endpoint is reached at from the provider,
	// at least one. They cannot be of loopback, link-local or multicast, nor
	// unspecified; those of the provider's own nodes and pods are left out.
	// +listType=atomic
	Addresses []string `json:"addresses" protobuf:"bytes,1,rep,name=addresses"`
	// conditions are those that the endpoint has where it lives. It is ready on
	// the provider only if it can be reached, too.
	// +optional
	Conditions discoveryv1.EndpointConditions `json:"conditions,omitzero" protobuf:"bytes,2,opt,name=conditions"`
	// hostname is the name of the endpoint in the Service's domain.
	// +optional
	Hostname *string `json:"hostname,omitempty" protobuf:"bytes,3,opt,name=hostname"`
}

// ShadowEndpointSliceStatus is whether the endpoints can be reached.
type ShadowEndpointSliceStatus struct {
	// conditions are Ready: whether there is an EndpointSlice whose endpoints
	// count. Its reason says what is in the way.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,1,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the slices.
	Items []ShadowEndpointSlice `json:"items" protobuf:"bytes,2,rep,name=items"`
}
