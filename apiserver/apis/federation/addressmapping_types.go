// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMapping is the allocation of a CIDR or address from an AddressPool for one peer.
type AddressMapping struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec AddressMappingSpec
}

// AddressMappingSpec is the CIDR or address that is mapped, and its replacement.
type AddressMappingSpec struct {
	ClusterID string
	Pool      string
	CIDR      string
	Address   string
	Mapped    string
	Ports     []AddressMappingPort
	Remap     bool
}

// AddressMappingPort is a port that a peer may connect to.
type AddressMappingPort struct {
	Protocol corev1.Protocol
	Port     int32
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMappingList is a list of AddressMappings.
type AddressMappingList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []AddressMapping
}
