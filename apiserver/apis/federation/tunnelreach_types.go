// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelReach contains the addresses of the local pods that one peer reaches through its tunnel.
type TunnelReach struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec TunnelReachSpec
}

// TunnelReachSpec is the list of the local pods that one peer reaches through its tunnel.
type TunnelReachSpec struct {
	ClusterID string
	Addresses []string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TunnelReachList is a list of TunnelReaches.
type TunnelReachList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []TunnelReach
}
