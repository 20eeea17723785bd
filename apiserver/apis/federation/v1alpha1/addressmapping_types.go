// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMapping is the allocation of a CIDR or address from an AddressPool for one peer. The
// controllers create an AddressMapping for each CIDR of the peer and for each non-pod endpoint that
// they expose to the peer; administrators can create more. The API server allocates the CIDR or
// address when the object is created, and releases it when the object is deleted. Allocations never
// overlap, even if they are from different pools.
type AddressMapping struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the CIDR or address to map, and the CIDR or address that replaces it. The creator of
	// the object writes it, except mapped. Only ports can change.
	Spec AddressMappingSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// AddressMappingSpec is the CIDR or address that is mapped, and its replacement.
type AddressMappingSpec struct {
	// clusterID is the UID of the namespace kube-system of the peer.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// pool is the name of the AddressPool to allocate from. The default is the pool named
	// "default".
	// +optional
	Pool string `json:"pool,omitempty" protobuf:"bytes,2,opt,name=pool"`
	// cidr is a CIDR of the peer. If remap is true, or cidr overlaps a reserved CIDR of the pool or
	// another mapping, the API server maps cidr to a free CIDR of the pool with the same prefix
	// length. Otherwise cidr is mapped to itself. Exactly one of cidr and address is required.
	// +optional
	CIDR string `json:"cidr,omitempty" protobuf:"bytes,3,opt,name=cidr"`
	// address is the address of an endpoint that the local cluster exposes to the peer. It is
	// always mapped to an address of the pool. Exactly one of cidr and address is required.
	// +optional
	Address string `json:"address,omitempty" protobuf:"bytes,4,opt,name=address"`
	// mapped is the allocated CIDR or address. Empty at creation lets the API server choose a free
	// one. A value requests exactly that CIDR or address; the creation is refused with 403 if it is
	// in use, reserved or not in the pool.
	// +optional
	Mapped string `json:"mapped,omitempty" protobuf:"bytes,5,opt,name=mapped"`
	// ports are the ports of address that the peer may connect to, at most 32. They are required
	// together with address, and forbidden together with cidr. Empty permits all ports, and is
	// possible only if address is the address of a pod on another peer, or if version v0.1.0 created
	// the object. A change does not affect established connections.
	// +optional
	// +listType=atomic
	Ports []AddressMappingPort `json:"ports,omitempty" protobuf:"bytes,6,rep,name=ports"`
	// remap maps cidr to a different CIDR even if cidr is free. The default is false. It is forbidden
	// together with address.
	// +optional
	Remap bool `json:"remap,omitempty" protobuf:"varint,7,opt,name=remap"`
}

// AddressMappingPort is a port that a peer may connect to.
type AddressMappingPort struct {
	// protocol is TCP, UDP or SCTP. The default is TCP.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty" protobuf:"bytes,1,opt,name=protocol,casttype=k8s.io/api/core/v1.Protocol"`
	// port is the port number, 1 to 65535.
	Port int32 `json:"port" protobuf:"varint,2,opt,name=port"`
}

// MaxAddressMappingPorts is the maximum number of ports of a mapping.
const MaxAddressMappingPorts = 32

// DefaultAddressPool is the name of the AddressPool that a mapping without spec.pool is allocated
// from. CIDRs of peers are remapped to its CIDRs.
const DefaultAddressPool = "default"

// ExternalAddressPool is the name of the AddressPool whose CIDRs are the external CIDRs: peers
// reach non-pod endpoints of the local cluster at addresses from this pool.
const ExternalAddressPool = "external"

// Types of the causes in the details of a 403 response to the creation of an AddressMapping.
const (
	// CauseAddressesExhausted means that the pool has no free CIDR of the requested prefix length,
	// or no free address.
	CauseAddressesExhausted metav1.CauseType = "AddressesExhausted"
	// CauseAddressTaken means that the requested spec.mapped is in use, reserved or not in the
	// pool.
	CauseAddressTaken metav1.CauseType = "AddressTaken"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMappingList is a list of AddressMappings.
type AddressMappingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the AddressMappings.
	Items []AddressMapping `json:"items" protobuf:"bytes,2,rep,name=items"`
}
