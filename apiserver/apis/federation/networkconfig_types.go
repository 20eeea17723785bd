// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfig is what one side of a peering says of its network, and what
// the other side calls the addresses in it.
type NetworkConfig struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NetworkConfigSpec
	Status NetworkConfigStatus
}

// NetworkConfigSpec is what a cluster says of its network.
type NetworkConfigSpec struct {
	ClusterID     string
	PodCIDRs      []string
	ExternalCIDRs []string
	PublicKey     string
	Endpoints     []string
	MTU           int32
	Backend       NetworkBackend
}

// NetworkBackend is what tunnels are made with, see v1alpha1.
type NetworkBackend string

// NetworkConfigStatus is the other side's answer.
type NetworkConfigStatus struct {
	ObservedGeneration int64
	CIDRs              []CIDRMapping
	Conditions         []metav1.Condition
}

// CIDRMapping is a range and the one of equal length that stands for it
// elsewhere.
type CIDRMapping struct {
	CIDR   string
	Mapped string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfigList is a list of NetworkConfigs.
type NetworkConfigList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []NetworkConfig
}
