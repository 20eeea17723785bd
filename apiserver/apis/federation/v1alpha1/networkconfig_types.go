// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of NetworkConfigs, after the role of the cluster that they describe.
const (
	// NetworkConfigOfConsumer is the name of the NetworkConfig that describes the consumer.
	NetworkConfigOfConsumer = "consumer"
	// NetworkConfigOfProvider is the name of the NetworkConfig that describes the provider.
	NetworkConfigOfProvider = "provider"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NetworkConfig describes the network of one cluster of a peering to the other one. The controllers
// of the cluster write the spec, and the controllers of the other cluster answer in the status. The
// NetworkConfig of the consumer is replicated from its peer namespace to the tenant namespace on
// the provider, and the one of the provider in the opposite direction.
type NetworkConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is consumer or provider, the role of the
	// cluster that is described.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the description of the network, written by the controllers of the cluster.
	Spec NetworkConfigSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the answer, written by the controllers of the other cluster.
	// +optional
	Status NetworkConfigStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// NetworkConfigSpec is the description of the network of a cluster.
type NetworkConfigSpec struct {
	// clusterID is the UID of the namespace kube-system of the cluster that is described. It cannot
	// change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// podCIDRs are the IPv4 and IPv6 CIDRs of the pods of the cluster. At least one, disjoint, and
	// at most 64 together with externalCIDRs.
	// +listType=atomic
	PodCIDRs []string `json:"podCIDRs" protobuf:"bytes,2,rep,name=podCIDRs"`
	// externalCIDRs are the CIDRs with the addresses that expose non-pod endpoints of the cluster,
	// at most one per address family. Empty means that it exposes none.
	// +optional
	// +listType=atomic
	ExternalCIDRs []string `json:"externalCIDRs,omitempty" protobuf:"bytes,3,rep,name=externalCIDRs"`
	// publicKey is the WireGuard public key of the gateway of the cluster, 32 bytes in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,4,opt,name=publicKey"`
	// endpoints are the addresses of the gateway of the cluster, each a host and UDP port, in order
	// of preference. At most 8. Empty means that it cannot be reached, and opens the connection
	// itself.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,5,rep,name=endpoints"`
	// mtu is the MTU inside the tunnel that the cluster supports, in bytes, 1280 to 65535. 0 means
	// that it is not known; the MTU of the other cluster is used then.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,6,opt,name=mtu"`
	// backend is the tunnel technology of the cluster. A cluster refuses a NetworkConfig with
	// another backend than its own. The default is WireGuard, which is the only one.
	// +optional
	// +default="WireGuard"
	Backend NetworkBackend `json:"backend,omitempty" protobuf:"bytes,7,opt,name=backend,casttype=NetworkBackend"`
}

// NetworkBackend is a tunnel technology.
type NetworkBackend string

// BackendWireGuard is WireGuard.
const BackendWireGuard NetworkBackend = "WireGuard"

// NetworkConfigStatus is the answer of the other cluster.
type NetworkConfigStatus struct {
	// observedGeneration is the generation of the spec that was answered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// cidrs are the podCIDRs and externalCIDRs, and what the other cluster remaps them to. CIDRs of
	// an address family that its pods do not have are left out.
	// +optional
	// +listType=atomic
	CIDRs []CIDRMapping `json:"cidrs,omitempty" protobuf:"bytes,2,rep,name=cidrs"`
	// conditions are Accepted, which is True if the other cluster accepts the spec, and False if it
	// refuses it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions"`
}

// CIDRMapping is a CIDR of a cluster, and the CIDR that replaces it in another one. The offset of
// an address in the CIDR does not change.
type CIDRMapping struct {
	// cidr is the CIDR in its own cluster.
	CIDR string `json:"cidr" protobuf:"bytes,1,opt,name=cidr"`
	// mapped is the CIDR of the same family and length in the other cluster. It equals cidr unless
	// cidr is in use in that cluster.
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
