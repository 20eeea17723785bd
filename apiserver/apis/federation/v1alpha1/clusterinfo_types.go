// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterInfoName is the name of the only ClusterInfo of a cluster.
const ClusterInfoName = "local"

// MaxClusterRanges is the maximum number of ranges in a ClusterInfo.
const MaxClusterRanges = 2048

// Condition types of a ClusterInfo.
const (
	// ConditionRangesKnown is True while the CIDRs of the pods are known; its message names the
	// ranges in use and their sources. It is False while no source has any.
	ConditionRangesKnown = "RangesKnown"
	// ConditionRangesConsistent is True while all sources, values of the chart and tunnels agree
	// with the ranges in use, and False otherwise.
	ConditionRangesConsistent = "RangesConsistent"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfo describes the local cluster. There is one, named local. The controllers write it; the
// gateway, the route agents and administrators read it. It has no spec.
type ClusterInfo struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is local.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// status is the description of the cluster, written by the controllers.
	// +optional
	Status ClusterInfoStatus `json:"status,omitempty" protobuf:"bytes,2,opt,name=status"`
}

// ClusterInfoStatus is the description of the local cluster.
type ClusterInfoStatus struct {
	// clusterID is the UID of the namespace kube-system.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,1,opt,name=clusterID"`
	// clusterName is the name that the cluster presents to peers, from the value clusterName.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// labels are the value clusterLabels, which the virtual nodes of consumers get. A
	// ForeignCluster can add and override labels in spec.incomingPolicy.labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	// version is the version of the software.
	// +optional
	Version string `json:"version,omitempty" protobuf:"bytes,4,opt,name=version"`
	// features are the optional features that the cluster supports in negotiations with peers.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// gateway is what a peer needs for a tunnel to this cluster. Empty while the gateway has no
	// key.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,6,opt,name=gateway"`
	// ranges are the CIDRs in use in the cluster, each with its source: first the CIDRs of pods,
	// then of Services and nodes, external and reserved ones. At most 2048.
	// +optional
	// +listType=atomic
	Ranges []ClusterRange `json:"ranges,omitempty" protobuf:"bytes,7,rep,name=ranges"`
	// conditions are RangesKnown, which is True while the CIDRs of the pods are known, and
	// RangesConsistent, which is False while two sources disagree, a value of the chart contradicts
	// what is detected, or a tunnel uses ranges that are no longer detected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,8,rep,name=conditions"`
}

// ClusterRange is a CIDR in use in the cluster.
type ClusterRange struct {
	// use is the kind of endpoints with addresses in the CIDR.
	Use ClusterRangeUse `json:"use" protobuf:"bytes,1,opt,name=use,casttype=ClusterRangeUse"`
	// cidr is the IPv4 or IPv6 CIDR, for example 10.244.0.0/16.
	CIDR string `json:"cidr" protobuf:"bytes,2,opt,name=cidr"`
	// source is the object that the CIDR was read from.
	Source ClusterRangeSource `json:"source" protobuf:"bytes,3,opt,name=source,casttype=ClusterRangeSource"`
}

// ClusterRangeUse is the kind of endpoints with addresses in a CIDR.
// +enum
type ClusterRangeUse string

const (
	// RangeOfPods is a CIDR of pods.
	RangeOfPods ClusterRangeUse = "Pods"
	// RangeOfServices is a CIDR of Services.
	RangeOfServices ClusterRangeUse = "Services"
	// RangeOfNodes is a CIDR of nodes.
	RangeOfNodes ClusterRangeUse = "Nodes"
	// RangeExternal is an external CIDR, which exposes non-pod endpoints to peers.
	RangeExternal ClusterRangeUse = "External"
	// RangeReserved is any other CIDR that must not be the range of a peer.
	RangeReserved ClusterRangeUse = "Reserved"
)

// ClusterRangeSource is the object that a CIDR was read from.
// +enum
type ClusterRangeSource string

const (
	// SourceValue is a value of the chart, which overrides what is detected.
	SourceValue ClusterRangeSource = "Value"
	// SourceCalico is an IPPool of Calico.
	SourceCalico ClusterRangeSource = "Calico"
	// SourceCilium is ConfigMap cilium-config, or a CiliumNode.
	SourceCilium ClusterRangeSource = "Cilium"
	// SourceFlannel is ConfigMap kube-flannel-cfg.
	SourceFlannel ClusterRangeSource = "Flannel"
	// SourceKubeadm is ConfigMap kubeadm-config.
	SourceKubeadm ClusterRangeSource = "Kubeadm"
	// SourceK3s is the annotation of a Node with the arguments of k3s or RKE2.
	SourceK3s ClusterRangeSource = "K3s"
	// SourceNode is a Node: its spec.podCIDRs, or its addresses.
	SourceNode ClusterRangeSource = "Node"
	// SourcePod is derived from the addresses of running pods, if no other source names a range.
	SourcePod ClusterRangeSource = "Pod"
	// SourceServiceCIDR is a ServiceCIDR.
	SourceServiceCIDR ClusterRangeSource = "ServiceCIDR"
	// SourceAPIServer is derived from the endpoints of Service kubernetes.
	SourceAPIServer ClusterRangeSource = "APIServer"
	// SourceAddressPool is AddressPool external.
	SourceAddressPool ClusterRangeSource = "AddressPool"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfoList is a list of ClusterInfos.
type ClusterInfoList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ClusterInfos.
	Items []ClusterInfo `json:"items" protobuf:"bytes,2,rep,name=items"`
}
