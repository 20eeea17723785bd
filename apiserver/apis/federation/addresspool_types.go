// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPool is the address space that AddressMappings are allocated from.
type AddressPool struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   AddressPoolSpec
	Status AddressPoolStatus
}

// AddressPoolSpec is the address space of a pool.
type AddressPoolSpec struct {
	CIDRs    []string
	Reserved []string
}

// AddressPoolStatus is the usage of a pool.
type AddressPoolStatus struct {
	ObservedGeneration int64
	Mappings           int64
	CIDRs              []AddressPoolCIDRStatus
}

// AddressPoolCIDRStatus is the usage of one CIDR of a pool.
type AddressPoolCIDRStatus struct {
	CIDR        string
	UsedPercent int32
	LargestFree string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPoolList is a list of AddressPools.
type AddressPoolList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []AddressPool
}
