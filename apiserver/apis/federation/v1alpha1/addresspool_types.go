// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPool is the address space that AddressMappings are allocated from. The controllers create
// the pools "default" and "external" from the values of the chart and keep them up to date; a pool
// that an administrator created is not changed. If the CIDRs of two pools overlap, an allocation
// from one pool is in use in the other pool too.
type AddressPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the address space of the pool, written by the controllers or by an administrator.
	Spec AddressPoolSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the usage of the pool, written by the API server.
	// +optional
	Status AddressPoolStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// AddressPoolSpec is the address space of a pool. A change applies to mappings that are created
// afterwards; existing mappings keep their allocations.
type AddressPoolSpec struct {
	// cidrs are the IPv4 and IPv6 CIDRs to allocate from, in order of use: the next CIDR is used
	// when the previous ones have no free range. 1 to 64 CIDRs, which must not overlap.
	// +listType=atomic
	CIDRs []string `json:"cidrs" protobuf:"bytes,1,rep,name=cidrs"`
	// reserved are CIDRs that are never allocated; a CIDR of a peer that overlaps one of them is
	// remapped. The controllers list the CIDRs of local pods, Services and nodes, and other
	// destinations of local pods. A reserved CIDR can lie outside of the CIDRs of the pool. At most
	// 256. Empty reserves none.
	// +optional
	// +listType=atomic
	Reserved []string `json:"reserved,omitempty" protobuf:"bytes,2,rep,name=reserved"`
}

// AddressPoolStatus is the usage of a pool.
type AddressPoolStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// mappings is the number of AddressMappings with this pool in spec.pool.
	// +optional
	Mappings int64 `json:"mappings,omitempty" protobuf:"varint,2,opt,name=mappings"`
	// cidrs are the CIDRs of the pool, each with its usage.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	CIDRs []AddressPoolCIDRStatus `json:"cidrs,omitempty" protobuf:"bytes,3,rep,name=cidrs"`
}

// AddressPoolCIDRStatus is the usage of one CIDR of a pool.
type AddressPoolCIDRStatus struct {
	// cidr is one of the CIDRs in spec.cidrs.
	CIDR string `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	// usedPercent is the percentage of the addresses in cidr that are reserved, or allocated to
	// mappings of this or another pool, rounded down. 100 means that no address is free.
	UsedPercent int32 `json:"usedPercent" protobuf:"varint,2,opt,name=usedPercent"`
	// largestFree is the largest CIDR within cidr that can still be allocated. Empty means that no
	// address is free.
	// +optional
	LargestFree string `json:"largestFree,omitempty" protobuf:"bytes,3,opt,name=largestFree"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPoolList is a list of AddressPools.
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the AddressPools.
	Items []AddressPool `json:"items" protobuf:"bytes,2,rep,name=items"`
}
