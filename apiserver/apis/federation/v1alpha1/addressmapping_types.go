// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMapping is an address or a CIDR as the other side sees it. It is
// allocated when the object is created, as the ClusterIP of a Service is, and
// free again when the object is gone. No two mappings of a cluster overlap.
type AddressMapping struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what is mapped, and what it is mapped to. It cannot change, but for
	// its ports.
	Spec AddressMappingSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// AddressMappingSpec is what is mapped, and what it is mapped to.
type AddressMappingSpec struct {
	// clusterID is the id of the cluster that the mapping is for.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// pool is the AddressPool that the mapping is taken from; "default" when
	// nothing is said.
	// +optional
	Pool string `json:"pool,omitempty" protobuf:"bytes,2,opt,name=pool"`
	// cidr is a range of the other cluster, as it is called there. It is mapped
	// to itself, unless that overlaps what is reserved in the pool or another
	// mapping; then to a range of the pool that is as large. Either cidr or
	// address is set.
	// +optional
	CIDR string `json:"cidr,omitempty" protobuf:"bytes,3,opt,name=cidr"`
	// address is something that is no pod of this cluster, as the other cluster
	// is to reach it. It is always mapped to an address of the pool.
	// +optional
	Address string `json:"address,omitempty" protobuf:"bytes,4,opt,name=address"`
	// mapped is the CIDR or the address that it is mapped to. It is allocated
	// when the mapping is created. Who sets it then gets this one, or none.
	// +optional
	Mapped string `json:"mapped,omitempty" protobuf:"bytes,5,opt,name=mapped"`
	// ports are those of the address that the other cluster may call; where there
	// are none, all. They may change, and what is connected by then stays
	// connected. A mapping of a cidr has none.
	// +optional
	// +listType=atomic
	Ports []AddressMappingPort `json:"ports,omitempty" protobuf:"bytes,6,rep,name=ports"`
}

// AddressMappingPort is a port that the other cluster may call.
type AddressMappingPort struct {
	// protocol is TCP, UDP or SCTP; TCP when nothing is said.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty" protobuf:"bytes,1,opt,name=protocol,casttype=k8s.io/api/core/v1.Protocol"`
	// port is the number of the port.
	Port int32 `json:"port" protobuf:"varint,2,opt,name=port"`
}

// MaxAddressMappingPorts is how many ports a mapping can be bounded to.
const MaxAddressMappingPorts = 32

// DefaultAddressPool is the AddressPool of a mapping that names none.
const DefaultAddressPool = "default"

// ExternalAddressPool is the AddressPool of the addresses that expose non-pod endpoints of
// the local cluster to peers. Its CIDRs are the external CIDRs.
const ExternalAddressPool = "external"

// CauseAddressesExhausted is the type of the cause in the answer 403 to an
// AddressMapping that its pool has nothing left for, and CauseAddressTaken of
// that to one whose mapped it cannot have.
const (
	CauseAddressesExhausted metav1.CauseType = "AddressesExhausted"
	CauseAddressTaken       metav1.CauseType = "AddressTaken"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMappingList is a list of AddressMappings.
type AddressMappingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the mappings.
	Items []AddressMapping `json:"items" protobuf:"bytes,2,rep,name=items"`
}
