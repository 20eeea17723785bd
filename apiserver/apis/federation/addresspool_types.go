// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressPool is the address space that AddressMappings are taken from.
type AddressPool struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   AddressPoolSpec
	Status AddressPoolStatus
}

// AddressPoolSpec is what may be given, and what may not.
type AddressPoolSpec struct {
	CIDRs    []string
	Reserved []string
}

// AddressPoolStatus is how much of a pool is left.
type AddressPoolStatus struct {
	ObservedGeneration int64
	Mappings           int64
	CIDRs              []AddressPoolCIDRStatus
}

// AddressPoolCIDRStatus is how much of one CIDR is left.
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
