// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AddressMapping is an address or a CIDR as the other side sees it. It is
// allocated when the object is created, as the ClusterIP of a Service is.
type AddressMapping struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec AddressMappingSpec
}

// AddressMappingSpec is what is mapped, and what it is mapped to.
type AddressMappingSpec struct {
	ClusterID string
	Pool      string
	CIDR      string
	Address   string
	Mapped    string
	Ports     []AddressMappingPort
}

// AddressMappingPort is a port that the other cluster may call.
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
