// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpoint is the configuration and the state of the tunnel to one peer. The controllers
// create it in the installation namespace while networking of the ForeignCluster is Tunnel or its
// mode is InBand. The gateway and the route agents configure their nodes from the spec, and the
// active gateway writes the status. Peers cannot read it.
type TunnelEndpoint struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the ForeignCluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the configuration that both clusters agreed on, written by the controllers.
	Spec TunnelEndpointSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is the observed state of the tunnel, written by the active gateway.
	// +optional
	Status TunnelEndpointStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// TunnelEndpointSpec is the configuration of a tunnel that both clusters agreed on.
type TunnelEndpointSpec struct {
	// clusterID is the UID of the namespace kube-system of the peer. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// publicKey is the WireGuard public key of the remote gateway, 32 bytes in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,2,opt,name=publicKey"`
	// endpoints are the endpoints of the remote gateway, each a host and UDP port, in order of
	// preference. At most 8. Empty means that the local gateway waits for the remote gateway to
	// connect.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,3,rep,name=endpoints"`
	// mtu is the MTU inside the tunnel in bytes: the lower of the MTUs that both clusters support.
	// 0 means that neither cluster has reported an MTU yet; each gateway then uses the MTU of its
	// own network.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,4,opt,name=mtu"`
	// local are the CIDRs of the local cluster, first pod CIDRs, then external CIDRs, each with the
	// CIDR that the peer remaps it to. Empty while the tunnel carries only control plane traffic.
	// +optional
	// +listType=atomic
	Local []CIDRMapping `json:"local,omitempty" protobuf:"bytes,5,rep,name=local"`
	// remote are the CIDRs of the peer, first pod CIDRs, then external CIDRs, each with the CIDR
	// that the local cluster remaps it to. Empty while the tunnel carries only control plane
	// traffic.
	// +optional
	// +listType=atomic
	Remote []CIDRMapping `json:"remote,omitempty" protobuf:"bytes,6,rep,name=remote"`
	// control are the directions of control plane traffic through the tunnel, Serve, Call or both.
	// Empty with mode OutOfBand.
	// +optional
	// +listType=set
	Control []TunnelControl `json:"control,omitempty" protobuf:"bytes,7,rep,name=control,casttype=TunnelControl"`
	// reach selects which local pods the peer reaches. With Offloaded, the peer reaches the addresses
	// in the TunnelReach of the same name, and no pod while that TunnelReach does not exist. Empty
	// means All.
	// +optional
	Reach ReachMode `json:"reach,omitempty" protobuf:"bytes,8,opt,name=reach,casttype=ReachMode"`
}

// TunnelControl is a direction of control plane traffic through a tunnel.
// +enum
type TunnelControl string

const (
	// TunnelControlServe forwards requests of the peer to the local API server.
	TunnelControlServe TunnelControl = "Serve"
	// TunnelControlCall forwards requests of the local cluster to the API server of the peer.
	TunnelControlCall TunnelControl = "Call"
)

// TunnelPhase is the state of a tunnel.
// +enum
type TunnelPhase string

const (
	// TunnelConnecting means that the remote gateway does not reply through the tunnel.
	TunnelConnecting TunnelPhase = "Connecting"
	// TunnelConnected means that the remote gateway replies through the tunnel.
	TunnelConnected TunnelPhase = "Connected"
	// TunnelError means that the gateway cannot configure the tunnel as spec requires; the
	// condition Connected has the reason.
	TunnelError TunnelPhase = "Error"
)

// ConditionConnected is True while the remote gateway replies through the tunnel, and False
// otherwise.
const ConditionConnected = "Connected"

// ConditionPathMTU is True if packets of the size spec.mtu pass through the tunnel in both
// directions, False if only smaller packets pass, and Unknown if no packet of at least 1280 bytes
// passes. It keeps its last status while the tunnel is not connected.
const ConditionPathMTU = "PathMTU"

// WireGuard implementations, values of status.implementation.
const (
	// WireGuardKernel is the implementation in the Linux kernel.
	WireGuardKernel = "kernel"
	// WireGuardGo is the userspace implementation, which runs in the process of the gateway.
	WireGuardGo = "wireguard-go"
)

// TunnelEndpointStatus is the observed state of a tunnel.
type TunnelEndpointStatus struct {
	// observedGeneration is the generation of the spec that the active gateway has applied.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// phase is the state of the tunnel.
	// +optional
	Phase TunnelPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=TunnelPhase"`
	// endpoint is the address and UDP port from which the local gateway last received packets of
	// the remote gateway. Empty before the first handshake.
	// +optional
	Endpoint string `json:"endpoint,omitempty" protobuf:"bytes,3,opt,name=endpoint"`
	// gateway is the name of the local node on which the active gateway runs.
	// +optional
	Gateway string `json:"gateway,omitempty" protobuf:"bytes,4,opt,name=gateway"`
	// publicKey is the WireGuard public key that the local gateway uses, 32 bytes in base64. The
	// controllers send a new key to the peer after the gateway has started to use it.
	// +optional
	PublicKey string `json:"publicKey,omitempty" protobuf:"bytes,5,opt,name=publicKey"`
	// mtu is the MTU inside the tunnel, in bytes, that the network of the active gateway's node
	// permits. The peer receives it in the NetworkConfig of the local cluster. 0 means that it is
	// unknown or less than 1280.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,6,opt,name=mtu"`
	// implementation is the WireGuard implementation of the gateway: kernel or wireguard-go.
	// +optional
	Implementation string `json:"implementation,omitempty" protobuf:"bytes,7,opt,name=implementation"`
	// latencyMicroseconds is the round-trip time to the remote gateway in microseconds, the median
	// of the last 15 probes. It is updated when it changes by at least 20 % and at least 250
	// microseconds. It is 0 while the tunnel is not connected.
	// +optional
	LatencyMicroseconds int64 `json:"latencyMicroseconds,omitempty" protobuf:"varint,8,opt,name=latencyMicroseconds"`
	// lossPercent is the percentage of the last 50 probes without a reply. It is updated when it
	// changes by at least 10 percentage points or reaches 0. It is 0 while the tunnel is not
	// connected.
	// +optional
	LossPercent int32 `json:"lossPercent,omitempty" protobuf:"varint,9,opt,name=lossPercent"`
	// pathMTU is the size in bytes of the largest packets that pass through the tunnel in both
	// directions, if it is less than spec.mtu; the gateway then sends no larger packets. 0 means
	// that packets of the size spec.mtu pass. It keeps its last value while the tunnel is not
	// connected.
	// +optional
	PathMTU int32 `json:"pathMTU,omitempty" protobuf:"varint,10,opt,name=pathMTU"`
	// conditions are Connected, which is True while the remote gateway replies through the tunnel,
	// and PathMTU, which is True if packets of the size spec.mtu pass in both directions.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,11,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpointList is a list of TunnelEndpoints.
type TunnelEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the TunnelEndpoints.
	Items []TunnelEndpoint `json:"items" protobuf:"bytes,2,rep,name=items"`
}
