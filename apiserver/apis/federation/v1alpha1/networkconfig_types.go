// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of NetworkConfigs: the role of the described cluster in the peering.
const (
	// NetworkConfigOfConsumer is the name of the NetworkConfig that describes the consumer.
	NetworkConfigOfConsumer = "consumer"
	// NetworkConfigOfProvider is the name of the NetworkConfig that describes the provider.
	NetworkConfigOfProvider = "provider"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfig describes the network of one cluster of a peering to its peer. The controllers of
// the described cluster write the spec, and the controllers of the peer write the status. The
// NetworkConfig named consumer is replicated from the peer namespace on the consumer to the tenant
// namespace on the provider, and the NetworkConfig named provider in the opposite direction.
type NetworkConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is consumer or provider, the role of the
	// described cluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the description of the network, written by the controllers of the described cluster.
	Spec NetworkConfigSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status states whether the peer accepts the spec, and how it remaps CIDRs, written by the
	// controllers of the peer.
	// +optional
	Status NetworkConfigStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NetworkConfigSpec is the description of the network of a cluster.
type NetworkConfigSpec struct {
	// clusterID is the UID of the namespace kube-system of the described cluster. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// podCIDRs are the IPv4 and IPv6 CIDRs of the pods of the described cluster. They must not
	// overlap. At least one, and at most 64 together with externalCIDRs.
	// +listType=atomic
	PodCIDRs []string `json:"podCIDRs" protobuf:"bytes,2,rep,name=podCIDRs"`
	// externalCIDRs are the external CIDRs of the described cluster, at most one per address
	// family. Empty means that the cluster exposes no non-pod endpoints.
	// +optional
	// +listType=atomic
	ExternalCIDRs []string `json:"externalCIDRs,omitempty" protobuf:"bytes,3,rep,name=externalCIDRs"`
	// publicKey is the WireGuard public key of the described cluster's gateway, 32 bytes in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,4,opt,name=publicKey"`
	// endpoints are the endpoints of the described cluster's gateway, each a host and UDP port, in
	// order of preference. At most 8. Empty means that the peer cannot reach the gateway, and that
	// the gateway opens the connection itself.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,5,rep,name=endpoints"`
	// mtu is the largest MTU inside the tunnel that the described cluster supports, in bytes, 1280
	// to 65535. 0 means unknown; the tunnel then has the MTU of the peer.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,6,opt,name=mtu"`
	// backend is the tunnel technology of the described cluster. The peer refuses a backend that it
	// does not support. The default and only supported value is WireGuard.
	// +optional
	// +default="WireGuard"
	Backend NetworkBackend `json:"backend,omitempty" protobuf:"bytes,7,opt,name=backend,casttype=NetworkBackend"`
}

// NetworkBackend is a tunnel technology.
type NetworkBackend string

// BackendWireGuard is the only backend.
const BackendWireGuard NetworkBackend = "WireGuard"

// NetworkConfigStatus is the decision of the peer about a NetworkConfig.
type NetworkConfigStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// cidrs are podCIDRs and externalCIDRs, each with the CIDR that the peer remaps it to. CIDRs of
	// an address family that pods of the peer do not use are left out.
	// +optional
	// +listType=atomic
	CIDRs []CIDRMapping `json:"cidrs,omitempty" protobuf:"bytes,2,rep,name=cidrs"`
	// conditions contain Accepted, which is True if the peer accepts the spec, and False if the
	// peer refuses it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions"`
}

// CIDRMapping is a CIDR of one cluster and the CIDR that replaces it in another cluster. Remapping
// changes only the prefix of an address.
type CIDRMapping struct {
	// cidr is a pod CIDR or an external CIDR of a cluster.
	CIDR string `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	// mapped is the CIDR that replaces cidr in the other cluster, of the same address family and
	// prefix length. If the other cluster does not remap cidr, both are equal.
	Mapped string `json:"mapped" protobuf:"bytes,2,opt,name=mapped"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfigList is a list of NetworkConfigs.
type NetworkConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the NetworkConfigs.
	Items []NetworkConfig `json:"items" protobuf:"bytes,2,rep,name=items"`
}
