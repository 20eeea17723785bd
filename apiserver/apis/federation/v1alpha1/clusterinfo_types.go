// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterInfoName is the name of the one ClusterInfo of a cluster.
const ClusterInfoName = "local"

// MaxClusterRanges bounds the ranges of a ClusterInfo.
const MaxClusterRanges = 2048

const (
	// ConditionRangesKnown reports of a ClusterInfo whether the ranges of the cluster's pods
	// are known, and which ranges are in use.
	ConditionRangesKnown = "RangesKnown"
	// ConditionRangesConsistent reports of a ClusterInfo whether all sources, values and
	// tunnels agree with the ranges in use.
	ConditionRangesConsistent = "RangesConsistent"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfo describes the local cluster. There is one, named local, which the controllers
// write; it has no spec.
type ClusterInfo struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// status is the description.
	// +optional
	Status ClusterInfoStatus `json:"status,omitempty" protobuf:"bytes,2,opt,name=status"`
}

// ClusterInfoStatus is the description of the local cluster.
type ClusterInfoStatus struct {
	// clusterID is the UID of the namespace kube-system.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,1,opt,name=clusterID"`
	// clusterName is the name that the cluster has for its peers.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// labels are those that consumers receive with offers, unless spec.incomingPolicy of their
	// ForeignCluster names others.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	// version is that of the product.
	// +optional
	Version string `json:"version,omitempty" protobuf:"bytes,4,opt,name=version"`
	// features are those that the product offers to peers.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// gateway is what a peer needs for a tunnel to this cluster; empty while it has no key.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,6,opt,name=gateway"`
	// ranges are the CIDRs that the cluster uses itself, with the source of each: those of
	// pods first, then those of Services, nodes, external and reserved ones. At most 2048.
	// +optional
	// +listType=atomic
	Ranges []ClusterRange `json:"ranges,omitempty" protobuf:"bytes,7,rep,name=ranges"`
	// conditions are RangesKnown, which names the ranges in use and their sources, and
	// RangesConsistent, which is False while two sources disagree, a value contradicts what
	// is detected, or a tunnel needs ranges that are no longer detected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" protobuf:"bytes,8,rep,name=conditions"`
}

// ClusterRange is a CIDR that the cluster uses itself.
type ClusterRange struct {
	// use is what has addresses in the CIDR.
	Use ClusterRangeUse `json:"use" protobuf:"bytes,1,opt,name=use,casttype=ClusterRangeUse"`
	// cidr is the CIDR.
	CIDR string `json:"cidr" protobuf:"bytes,2,opt,name=cidr"`
	// source is where the CIDR was read.
	Source ClusterRangeSource `json:"source" protobuf:"bytes,3,opt,name=source,casttype=ClusterRangeSource"`
}

// ClusterRangeUse is what has addresses in a CIDR.
// +enum
type ClusterRangeUse string

const (
	// RangeOfPods is a CIDR of pods.
	RangeOfPods ClusterRangeUse = "Pods"
	// RangeOfServices is a CIDR of Services.
	RangeOfServices ClusterRangeUse = "Services"
	// RangeOfNodes is a CIDR of nodes.
	RangeOfNodes ClusterRangeUse = "Nodes"
	// RangeExternal is a CIDR that exposes non-pod endpoints to peers.
	RangeExternal ClusterRangeUse = "External"
	// RangeReserved is a CIDR that no peer may have, and that none of the others names.
	RangeReserved ClusterRangeUse = "Reserved"
)

// ClusterRangeSource is where a CIDR was read.
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
	// SourceK3s is the arguments of k3s or RKE2 in an annotation of a Node.
	SourceK3s ClusterRangeSource = "K3s"
	// SourceNode is a Node: its podCIDRs, or its addresses.
	SourceNode ClusterRangeSource = "Node"
	// SourcePod is the addresses of running pods, where nothing names their ranges.
	SourcePod ClusterRangeSource = "Pod"
	// SourceServiceCIDR is a ServiceCIDR.
	SourceServiceCIDR ClusterRangeSource = "ServiceCIDR"
	// SourceAPIServer is the endpoints of Service kubernetes.
	SourceAPIServer ClusterRangeSource = "APIServer"
	// SourceAddressPool is AddressPool external.
	SourceAddressPool ClusterRangeSource = "AddressPool"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfoList is a list of ClusterInfos.
type ClusterInfoList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// items are the ClusterInfos.
	Items []ClusterInfo `json:"items" protobuf:"bytes,2,rep,name=items"`
}
