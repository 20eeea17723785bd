// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxTunnelReachAddresses is the maximum number of addresses in a TunnelReach.
const MaxTunnelReachAddresses = 10000

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelReach contains the addresses of the local pods that one peer reaches through its tunnel. The
// controllers create it in the installation namespace while the TunnelEndpoint of the same name has
// reach Offloaded. It is separate from the TunnelEndpoint, because it changes with the pods and only
// gateways read it. Peers cannot read it.
type TunnelReach struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the name of the ForeignCluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// spec is the list of addresses, written by the controllers.
	Spec TunnelReachSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// TunnelReachSpec is the list of the local pods that one peer reaches through its tunnel.
type TunnelReachSpec struct {
	// clusterID is the UID of the namespace kube-system of the peer. It cannot change.
	ClusterID string `json:"clusterID" protobuf:"bytes,1,opt,name=clusterID"`
	// addresses are the addresses of the pods in the local cluster, before remapping. At most 10000.
	// Empty means that the peer reaches no pod.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty" protobuf:"bytes,2,rep,name=addresses"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelReachList is a list of TunnelReaches.
type TunnelReachList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the TunnelReaches.
	Items []TunnelReach `json:"items" protobuf:"bytes,2,rep,name=items"`
}
