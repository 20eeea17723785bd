// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpoint is the tunnel to another cluster, as it was agreed, and how it
// stands. There is one for each ForeignCluster whose networking is Tunnel and
// with which everything is agreed, of the same name, in the installation
// namespace. The controllers write the spec and the gateway writes the status;
// no peer sees it.
type TunnelEndpoint struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is that of the
	// ForeignCluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is what was agreed.
	Spec TunnelEndpointSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	// status is how the tunnel stands.
	// +optional
	Status TunnelEndpointStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// TunnelEndpointSpec is what was agreed about a tunnel.
type TunnelEndpointSpec struct {
	// clusterID is the id of the other cluster. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// publicKey is the WireGuard key of the other gateway, in base64.
	PublicKey string `json:"publicKey" protobuf:"bytes,2,opt,name=publicKey"`
	// endpoints are where the other gateway is called, host:port over UDP, the
	// best first. At most 8; without any it calls us.
	// +optional
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty" protobuf:"bytes,3,rep,name=endpoints"`
	// mtu is the most that a packet may measure inside of the tunnel, in bytes:
	// the lower one of what both sides said. 0 leaves it to what follows from
	// the network of the nodes, as long as no gateway has told of that.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,4,opt,name=mtu"`
	// local are our ranges, those of pods before external ones, and what the
	// other cluster calls them.
	// +optional
	// +listType=atomic
	Local []CIDRMapping `json:"local,omitempty" protobuf:"bytes,5,rep,name=local"`
	// remote are the ranges of the other cluster as it calls them, those of pods
	// before external ones, and what we call them. Both lists are empty as long
	// as the tunnel carries the control plane alone.
	// +optional
	// +listType=atomic
	Remote []CIDRMapping `json:"remote,omitempty" protobuf:"bytes,6,rep,name=remote"`
	// control says what of the control plane goes through the tunnel: Serve, where
	// the other cluster may reach our API server by it, and Call, where we reach
	// the other one's.
	// +optional
	// +listType=set
	Control []TunnelControl `json:"control,omitempty" protobuf:"bytes,7,rep,name=control,casttype=TunnelControl"`
}

// TunnelControl is a part that a cluster has in the control plane of a tunnel.
// +enum
type TunnelControl string

const (
	// TunnelControlServe lets the other cluster reach our API server.
	TunnelControlServe TunnelControl = "Serve"
	// TunnelControlCall lets us reach the API server of the other one.
	TunnelControlCall TunnelControl = "Call"
)

// TunnelPhase is how far a tunnel has come.
// +enum
type TunnelPhase string

const (
	// TunnelConnecting means that the other gateway does not answer, or not yet.
	TunnelConnecting TunnelPhase = "Connecting"
	// TunnelConnected means that the other gateway answers through the tunnel.
	TunnelConnected TunnelPhase = "Connected"
	// TunnelError means that the tunnel cannot be as it was agreed; the condition
	// Connected says why.
	TunnelError TunnelPhase = "Error"
)

// ConditionConnected is True while the other gateway answers through the
// tunnel; elsewhere it says why it does not.
const ConditionConnected = "Connected"

// ConditionPathMTU tells whether packets as large as was agreed upon reach the
// other gateway and come back. It is as it was found last, while the tunnel is not
// connected.
const ConditionPathMTU = "PathMTU"

// The implementations of WireGuard that a gateway may use.
const (
	// WireGuardKernel is that of the kernel.
	WireGuardKernel = "kernel"
	// WireGuardGo is the one that runs in the gateway's own process.
	WireGuardGo = "wireguard-go"
)

// TunnelEndpointStatus is how a tunnel stands. The gateway that holds it
// writes it.
type TunnelEndpointStatus struct {
	// observedGeneration is the generation of the spec that the tunnel was made
	// of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`
	// phase is Connecting, Connected or Error.
	// +optional
	Phase TunnelPhase `json:"phase,omitempty" protobuf:"bytes,2,opt,name=phase,casttype=TunnelPhase"`
	// endpoint is the address and port that the other gateway is heard from.
	// +optional
	Endpoint string `json:"endpoint,omitempty" protobuf:"bytes,3,opt,name=endpoint"`
	// gateway is our node that holds the tunnel.
	// +optional
	Gateway string `json:"gateway,omitempty" protobuf:"bytes,4,opt,name=gateway"`
	// publicKey is the WireGuard key that our gateway uses, in base64. Other
	// clusters are told of a new one once it is here.
	// +optional
	PublicKey string `json:"publicKey,omitempty" protobuf:"bytes,5,opt,name=publicKey"`
	// mtu is the most that a packet may measure inside of the tunnel by the network
	// of our gateway's node, in bytes, whatever was agreed upon and passes. Other
	// clusters are told of it. 0 is where that is not known, or less than 1280.
	// +optional
	MTU int32 `json:"mtu,omitempty" protobuf:"varint,6,opt,name=mtu"`
	// implementation is the WireGuard that it uses: kernel or wireguard-go.
	// +optional
	Implementation string `json:"implementation,omitempty" protobuf:"bytes,7,opt,name=implementation"`
	// latencyMicroseconds is how long a word to the other gateway and its answer
	// take. It is written again when it has moved by 20 %.
	// +optional
	LatencyMicroseconds int64 `json:"latencyMicroseconds,omitempty" protobuf:"varint,8,opt,name=latencyMicroseconds"`
	// lossPercent is how many of the last fifty words to the other gateway had no
	// answer. It is written again when it has moved by 10, or when none was lost.
	// It is 0 while the tunnel is not connected.
	// +optional
	LossPercent int32 `json:"lossPercent,omitempty" protobuf:"varint,9,opt,name=lossPercent"`
	// pathMTU is what a packet measures at most, in bytes, that reaches the other
	// gateway and comes back, where those of the size that was agreed upon do not.
	// This cluster sends no larger ones then. 0 is as large as was agreed upon. It
	// stays while nothing else is known.
	// +optional
	PathMTU int32 `json:"pathMTU,omitempty" protobuf:"varint,10,opt,name=pathMTU"`
	// conditions say why: Connected; and whether large packets pass: PathMTU.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,11,rep,name=conditions"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpointList is a list of TunnelEndpoints.
type TunnelEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the tunnels.
	Items []TunnelEndpoint `json:"items" protobuf:"bytes,2,rep,name=items"`
}
