// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPool is the address space that AddressMappings are taken from. What
// is taken is taken in all pools, also where they overlap.
type AddressPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what may be given, and what may not.
	Spec AddressPoolSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how much of it is left.
	// +optional
	Status AddressPoolStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// AddressPoolSpec is what may be given, and what may not. Changes hold for
// mappings that are created afterwards; those that are there keep what they
// have.
type AddressPoolSpec struct {
	// cidrs are the IPv4 and IPv6 CIDRs that are given from, in the order in
	// which they are used. At least 1 and at most 64, which do not overlap.
	// +listType=atomic
	CIDRs []string `json:"cidrs" protobuf:"bytes,1,rep,name=cidrs"`
	// reserved are ranges that are never given, and that no other cluster may
	// keep: those of this cluster's own pods, Services and nodes, and of what
	// else its pods have to reach. They may lie outside the cidrs. At most 256.
	// +optional
	// +listType=atomic
	Reserved []string `json:"reserved,omitempty" protobuf:"bytes,2,rep,name=reserved"`
}

// AddressPoolStatus is how much of a pool is left.
type AddressPoolStatus struct {
	// observedGeneration is the generation of the spec that this status answers
	// to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// mappings counts the AddressMappings that name the pool.
	// +optional
	Mappings int64 `json:"mappings,omitempty" protobuf:"varint,2,opt,name=mappings"`
	// cidrs tell how much of each of the cidrs is left.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	CIDRs []AddressPoolCIDRStatus `json:"cidrs,omitempty" protobuf:"bytes,3,rep,name=cidrs"`
}

// AddressPoolCIDRStatus is how much of one CIDR is left.
type AddressPoolCIDRStatus struct {
	// cidr is one of the cidrs of the pool.
	CIDR string `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	// usedPercent is how much of it is reserved or taken, by mappings of any
	// pool, rounded down; 100 means that nothing is left.
	UsedPercent int32 `json:"usedPercent" protobuf:"varint,2,opt,name=usedPercent"`
	// largestFree is the largest range of it that can still be given.
	// +optional
	LargestFree string `json:"largestFree,omitempty" protobuf:"bytes,3,opt,name=largestFree"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPoolList is a list of AddressPools.
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the pools.
	Items []AddressPool `json:"items" protobuf:"bytes,2,rep,name=items"`
}
