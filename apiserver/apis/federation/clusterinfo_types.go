// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfo describes the local cluster.
type ClusterInfo struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Status ClusterInfoStatus
}

// ClusterInfoStatus is the description of the local cluster.
type ClusterInfoStatus struct {
	ClusterID   string
	ClusterName string
	Labels      map[string]string
	Version     string
	Features    []string
	Gateway     *PeeringGateway
	Ranges      []ClusterRange
	Conditions  []metav1.Condition
}

// ClusterRange is a CIDR in use in the cluster.
type ClusterRange struct {
	Use    ClusterRangeUse
	CIDR   string
	Source ClusterRangeSource
}

// ClusterRangeUse is the kind of endpoints with addresses in a CIDR.
type ClusterRangeUse string

// Values of ClusterRangeUse, documented in v1alpha1.
const (
	RangeOfPods     ClusterRangeUse = "Pods"
	RangeOfServices ClusterRangeUse = "Services"
	RangeOfNodes    ClusterRangeUse = "Nodes"
	RangeExternal   ClusterRangeUse = "External"
	RangeReserved   ClusterRangeUse = "Reserved"
)

// ClusterRangeSource is the value of the chart, or the kind of object, that a CIDR was read from.
type ClusterRangeSource string

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfoList is a list of ClusterInfos.
type ClusterInfoList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ClusterInfo
}
