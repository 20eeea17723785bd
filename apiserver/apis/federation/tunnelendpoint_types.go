// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpoint is the configuration and the state of the tunnel to one peer.
type TunnelEndpoint struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   TunnelEndpointSpec
	Status TunnelEndpointStatus
}

// TunnelEndpointSpec is the configuration of a tunnel that both clusters agreed on.
type TunnelEndpointSpec struct {
	ClusterID string
	PublicKey string
	Endpoints []string
	MTU       int32
	Local     []CIDRMapping
	Remote    []CIDRMapping
	Control   []TunnelControl
	Reach     ReachMode
}

// TunnelControl is a direction of control plane traffic through a tunnel.
type TunnelControl string

// Values of TunnelControl, documented in v1alpha1.
const (
	TunnelControlServe TunnelControl = "Serve"
	TunnelControlCall  TunnelControl = "Call"
)

// TunnelPhase is the state of a tunnel.
type TunnelPhase string

// Values of TunnelPhase, documented in v1alpha1.
const (
	TunnelConnecting TunnelPhase = "Connecting"
	TunnelConnected  TunnelPhase = "Connected"
	TunnelError      TunnelPhase = "Error"
)

// TunnelEndpointStatus is the observed state of a tunnel.
type TunnelEndpointStatus struct {
	ObservedGeneration  int64
	Phase               TunnelPhase
	Endpoint            string
	Gateway             string
	PublicKey           string
	MTU                 int32
	Implementation      string
	LatencyMicroseconds int64
	LossPercent         int32
	PathMTU             int32
	Conditions          []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpointList is a list of TunnelEndpoints.
type TunnelEndpointList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []TunnelEndpoint
}
