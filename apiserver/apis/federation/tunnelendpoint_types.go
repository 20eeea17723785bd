// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelEndpoint is the tunnel to another cluster, as it was agreed, and how it
// stands.
type TunnelEndpoint struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   TunnelEndpointSpec
	Status TunnelEndpointStatus
}

// TunnelEndpointSpec is what was agreed about a tunnel.
type TunnelEndpointSpec struct {
	ClusterID string
	PublicKey string
	Endpoints []string
	MTU       int32
	Local     []CIDRMapping
	Remote    []CIDRMapping
	Control   []TunnelControl
}

// TunnelControl is a part that a cluster has in the control plane of a tunnel.
type TunnelControl string

// The parts in the control plane, see v1alpha1.
const (
	TunnelControlServe TunnelControl = "Serve"
	TunnelControlCall  TunnelControl = "Call"
)

// TunnelPhase is how far a tunnel has come.
type TunnelPhase string

// The phases of a tunnel, see v1alpha1.
const (
	TunnelConnecting TunnelPhase = "Connecting"
	TunnelConnected  TunnelPhase = "Connected"
	TunnelError      TunnelPhase = "Error"
)

// TunnelEndpointStatus is how a tunnel stands.
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
