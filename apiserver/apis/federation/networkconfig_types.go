// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfig describes the network of one cluster of a peering to its peer.
type NetworkConfig struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NetworkConfigSpec
	Status NetworkConfigStatus
}

// NetworkConfigSpec is the description of the network of a cluster.
type NetworkConfigSpec struct {
	ClusterID     string
	PodCIDRs      []string
	ExternalCIDRs []string
	PublicKey     string
	Endpoints     []string
	MTU           int32
	Backend       NetworkBackend
}

// NetworkBackend is a tunnel technology.
type NetworkBackend string

// NetworkConfigStatus is the decision of the peer about a NetworkConfig.
type NetworkConfigStatus struct {
	ObservedGeneration int64
	CIDRs              []CIDRMapping
	Conditions         []metav1.Condition
}

// CIDRMapping is a CIDR of one cluster and the CIDR that replaces it in another cluster.
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
