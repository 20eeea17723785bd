// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSlice has endpoints of a Service that are not on the provider. A virtual kubelet of
// the consumer creates it in a remote namespace, and the controllers of the provider create an
// EndpointSlice of the same name from it, whose endpoints are ready only while they can be reached.
type ShadowEndpointSlice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The label kubernetes.io/service-name is the name of
	// the Service in the same namespace. All labels are copied to the EndpointSlice. At most 64
	// KiB.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the list of endpoints, written by the virtual kubelet.
	Spec ShadowEndpointSliceSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status reports whether the endpoints can be reached, written by the controllers of the
	// provider.
	// +optional
	Status ShadowEndpointSliceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowEndpointSliceSpec is a list of endpoints.
type ShadowEndpointSliceSpec struct {
	// addressType is the address family of all endpoints, IPv4 or IPv6. It cannot change.
	AddressType discoveryv1.AddressType `json:"addressType" protobuf:"bytes,1,opt,name=addressType,casttype=k8s.io/api/discovery/v1.AddressType"`
	// ports are the ports of all endpoints, with the defaults of an EndpointSlice. At most 100.
	// +optional
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty" protobuf:"bytes,2,rep,name=ports"`
	// endpoints are the endpoints that are not on the provider. At most 1000, with at most 1000
	// addresses in total.
	// +optional
	// +listType=atomic
	Endpoints []ShadowEndpoint `json:"endpoints,omitempty" protobuf:"bytes,3,rep,name=endpoints"`
}

// ShadowEndpoint is an endpoint that is not on the provider.
type ShadowEndpoint struct {
	// addresses are the addresses of the endpoint, as the provider reaches them. At least one.
	// Unspecified, loopback, link-local and multicast addresses are refused; addresses of nodes,
	// pods and Services of the provider are left out of the EndpointSlice.
	// +listType=atomic
	Addresses []string `json:"addresses" protobuf:"bytes,1,rep,name=addresses"`
	// conditions are the conditions of the endpoint in its own cluster. On the provider it is ready
	// only if it can be reached as well.
	// +optional
	Conditions discoveryv1.EndpointConditions `json:"conditions,omitzero" protobuf:"bytes,2,opt,name=conditions"`
	// hostname is the DNS label of the endpoint in the domain of the Service.
	// +optional
	Hostname *string `json:"hostname,omitempty" protobuf:"bytes,3,opt,name=hostname"`
}

// ShadowEndpointSliceStatus reports whether the endpoints can be reached.
type ShadowEndpointSliceStatus struct {
	// conditions are Ready, which is True while the EndpointSlice exists and its endpoints can be
	// reached, and False otherwise.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,1,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ShadowEndpointSlices.
	Items []ShadowEndpointSlice `json:"items" protobuf:"bytes,2,rep,name=items"`
}
