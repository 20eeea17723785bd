// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMapping is the allocation of a remapped CIDR or address from an AddressPool. The
// controllers create one for each CIDR of a peer and for each endpoint that they expose to one;
// administrators can create more. The API server allocates the CIDR or address when the object is
// created, and releases it when the object is gone. Allocations of a cluster never overlap.
type AddressMapping struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the source and the target of the mapping. It cannot change, except for its ports.
	Spec AddressMappingSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// AddressMappingSpec is the source and the target of a mapping.
type AddressMappingSpec struct {
	// clusterID is the UID of the namespace kube-system of the peer that the mapping is for.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// pool is the name of the AddressPool to allocate from. The default is default.
	// +optional
	Pool string `json:"pool,omitempty" protobuf:"bytes,2,opt,name=pool"`
	// cidr is a CIDR of the peer. It is mapped to itself unless it overlaps a reserved CIDR of the
	// pool or another mapping; otherwise to a CIDR of the pool of the same length. Exactly one of
	// cidr and address is set.
	// +optional
	CIDR string `json:"cidr,omitempty" protobuf:"bytes,3,opt,name=cidr"`
	// address is the address of an endpoint that the local cluster exposes to the peer. It is
	// always mapped to an address of the pool. Exactly one of cidr and address is set.
	// +optional
	Address string `json:"address,omitempty" protobuf:"bytes,4,opt,name=address"`
	// mapped is the allocated CIDR or address. The API server sets it; a request with a value is
	// refused if that is in use.
	// +optional
	Mapped string `json:"mapped,omitempty" protobuf:"bytes,5,opt,name=mapped"`
	// ports are the ports of address that the peer may connect to, at most 32. Empty permits all. A
	// change does not affect established connections. It is forbidden with cidr.
	// +optional
	// +listType=atomic
	Ports []AddressMappingPort `json:"ports,omitempty" protobuf:"bytes,6,rep,name=ports"`
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

// DefaultAddressPool is the AddressPool of a mapping that names none. Its CIDRs are those that
// CIDRs of peers are remapped to.
const DefaultAddressPool = "default"

// ExternalAddressPool is the AddressPool of the addresses that expose non-pod endpoints of the
// local cluster to peers. Its CIDRs are the external CIDRs.
const ExternalAddressPool = "external"

// Types of the causes of a response 403 to the creation of an AddressMapping.
const (
	// CauseAddressesExhausted means that the pool has no free CIDR or address of that size.
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
