// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowEndpointSlice contains endpoints of a reflected Service that are not on the provider. A
// virtual kubelet of the consumer creates it in a remote namespace. The controllers of the provider
// create an EndpointSlice of the same name from it; its endpoints are ready only while the provider
// can reach them.
type ShadowEndpointSlice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The label kubernetes.io/service-name is the name of
	// the Service in the same namespace. All labels are copied to the EndpointSlice. The metadata
	// is limited to 64 KiB.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the list of endpoints, written by a virtual kubelet of the consumer.
	Spec ShadowEndpointSliceSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status reports whether the provider can reach the endpoints, written by the controllers of
	// the provider.
	// +optional
	Status ShadowEndpointSliceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ShadowEndpointSliceSpec is a list of endpoints of one Service.
type ShadowEndpointSliceSpec struct {
	// addressType is the address family of all endpoints, IPv4 or IPv6. It cannot change.
	AddressType discoveryv1.AddressType `json:"addressType" protobuf:"bytes,1,opt,name=addressType,casttype=k8s.io/api/discovery/v1.AddressType"`
	// ports are the ports of all endpoints. The default name is empty, and the default protocol is
	// TCP, as in an EndpointSlice. At most 100.
	// +optional
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty" protobuf:"bytes,2,rep,name=ports"`
	// endpoints are the endpoints that are not on the provider. At most 1000, with at most 1000
	// addresses in total.
	// +optional
	// +listType=atomic
	Endpoints []ShadowEndpoint `json:"endpoints,omitempty" protobuf:"bytes,3,rep,name=endpoints"`
}

// ShadowEndpoint is an endpoint of a Service that is not on the provider.
type ShadowEndpoint struct {
	// addresses are the addresses at which the provider reaches the endpoint, after remapping. At
	// least one. Unspecified, loopback, link-local and multicast addresses are refused; addresses
	// of nodes, pods and Services of the provider are left out of the EndpointSlice.
	// +listType=atomic
	Addresses []string `json:"addresses" protobuf:"bytes,1,rep,name=addresses"`
	// conditions are the conditions of the endpoint in its own cluster. In the EndpointSlice on the
	// provider, the endpoint is ready only if it is ready in its own cluster and the provider can
	// reach it.
	// +optional
	Conditions discoveryv1.EndpointConditions `json:"conditions,omitzero" protobuf:"bytes,2,opt,name=conditions"`
	// hostname is the DNS label of the endpoint below the domain name of the Service. Empty means
	// that the endpoint has no DNS name of its own.
	// +optional
	Hostname *string `json:"hostname,omitempty" protobuf:"bytes,3,opt,name=hostname"`
}

// ShadowEndpointSliceStatus reports whether the provider can reach the endpoints.
type ShadowEndpointSliceStatus struct {
	// conditions contain Ready, which is True while the EndpointSlice exists and the provider can
	// reach its endpoints, and False otherwise.
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
