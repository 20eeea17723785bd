// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkConfigs are named after the role of the cluster that they speak of,
// in a peering.
const (
	// NetworkConfigOfConsumer is the name of the NetworkConfig that a consumer
	// writes.
	NetworkConfigOfConsumer = "consumer"
	// NetworkConfigOfProvider is the name of the one that a provider writes.
	NetworkConfigOfProvider = "provider"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfig is what one side of a peering says of its network, and what
// the other side calls the addresses in it. A consumer writes its own, named
// "consumer", into its peer namespace, and its copy in the tenant namespace on
// the provider is answered there. A provider writes its own, named "provider",
// into the tenant namespace, and its mirror in the peer namespace of the
// consumer is answered there. Of a cluster that is both there are two, with
// equal specs.
type NetworkConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is consumer or
	// provider.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what the cluster says of its network.
	Spec NetworkConfigSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the other side's answer.
	// +optional
	Status NetworkConfigStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NetworkConfigSpec is what a cluster says of its network.
type NetworkConfigSpec struct {
	// clusterID is the id of the cluster whose network it is. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// podCIDRs are the ranges of its pods, IPv4 or IPv6. At least one, which do
	// not overlap, and with externalCIDRs at most 64.
	// +listType=atomic
	PodCIDRs []string `json:"podCIDRs" protobuf:"bytes,2,rep,name=podCIDRs"`
	// externalCIDRs are where addresses live that stand for what is no pod
	// there; at most one of a family.
	// +optional
	// +listType=atomic
	ExternalCIDRs []string `json:"externalCIDRs,omitempty" protobuf:"bytes,3,rep,name=externalCIDRs"`
	// publicKey is the WireGuard key of its gateway, in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,4,opt,name=publicKey"`
	// endpoints are where its gateway is called, host:port over UDP, the best
	// first. At most 8; without any it cannot be called, and calls the other one.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,5,rep,name=endpoints"`
	// mtu is the most that a packet may measure inside of the tunnel, in bytes,
	// 1280 to 65535: what the network of the gateway's node takes, or what an
	// administrator says, if that is less. 0 leaves it to the other side.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,6,opt,name=mtu"`
	// backend is what its gateway makes tunnels with. A cluster that makes them
	// with something else refuses the configuration by name. Default is WireGuard,
	// which is all there is so far.
	// +optional
	// +default="WireGuard"
	Backend NetworkBackend `json:"backend,omitempty" protobuf:"bytes,7,opt,name=backend,casttype=NetworkBackend"`
}

// NetworkBackend is what tunnels are made with.
type NetworkBackend string

// BackendWireGuard makes tunnels with WireGuard.
const BackendWireGuard NetworkBackend = "WireGuard"

// NetworkConfigStatus is the other side's answer.
type NetworkConfigStatus struct {
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// cidrs tell of each of podCIDRs and externalCIDRs what the other side calls
	// it.
	// +optional
	// +listType=atomic
	CIDRs []CIDRMapping `json:"cidrs,omitempty" protobuf:"bytes,2,rep,name=cidrs"`
	// conditions say why: Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions"`
}

// CIDRMapping is a range and the one of equal length that stands for it
// elsewhere. Addresses keep their place in it.
type CIDRMapping struct {
	// cidr is the range as its own cluster calls it.
	CIDR string `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	// mapped is the range as the other cluster calls it. It is the same one
	// where there is no conflict.
	Mapped string `json:"mapped" protobuf:"bytes,2,opt,name=mapped"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfigList is a list of NetworkConfigs.
type NetworkConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the network configurations.
	Items []NetworkConfig `json:"items" protobuf:"bytes,2,rep,name=items"`
}
