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
	// ConditionRangesKnown is True while the CIDRs of the pods are known; its message names the CIDRs
	// of pods and Services, and their sources. It is False while no pod CIDR could be detected and the
	// chart has no value for it.
	ConditionRangesKnown = "RangesKnown"
	// ConditionRangesConsistent is False while two sources of ranges disagree, a value of the chart
	// contradicts a detected range, or a tunnel uses ranges that are no longer detected. It is True
	// otherwise.
	ConditionRangesConsistent = "RangesConsistent"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterInfo describes the local cluster. A cluster has exactly one, named local. The controllers
// write it; the gateway, the route agents and administrators read it. It has no spec.
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
	// clusterID is the UID of the namespace kube-system of the local cluster. Empty before the
	// controllers have read it.
	// +optional
	ClusterID string `json:"clusterID,omitempty" protobuf:"bytes,1,opt,name=clusterID"`
	// clusterName is the name that the cluster presents to peers, from the value clusterName of the
	// chart.
	// +optional
	ClusterName string `json:"clusterName,omitempty" protobuf:"bytes,2,opt,name=clusterName"`
	// labels are the labels that virtual nodes of this cluster get on its consumers, from the value
	// clusterLabels of the chart. spec.incomingPolicy.labels of a ForeignCluster adds and overrides
	// labels for one consumer.
	// +optional
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	// version is the version of the controllers that wrote the status.
	// +optional
	Version string `json:"version,omitempty" protobuf:"bytes,4,opt,name=version"`
	// features are the names of the optional features that the cluster supports and reports to its
	// peers, for example Tunnel.
	// +optional
	// +listType=atomic
	Features []string `json:"features,omitempty" protobuf:"bytes,5,rep,name=features"`
	// gateway is the public key and the endpoints of the local gateway. For mode InBand, an
	// administrator of the peer sets them as spec.gateway of its ForeignCluster. Empty until the
	// gateway has generated its key.
	// +optional
	Gateway *PeeringGateway `json:"gateway,omitempty" protobuf:"bytes,6,opt,name=gateway"`
	// ranges are the CIDRs in use in the cluster, each with its source, ordered by use: Pods,
	// Services, Nodes, External, Reserved. At most 2048.
	// +optional
	// +listType=atomic
	Ranges []ClusterRange `json:"ranges,omitempty" protobuf:"bytes,7,rep,name=ranges"`
	// conditions are RangesKnown, which is True while the CIDRs of the pods are known, and
	// RangesConsistent, which is False while two sources disagree, a value of the chart contradicts
	// a detected range, or a tunnel uses ranges that are no longer detected.
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
	// source is the value of the chart, or the kind of object, that the CIDR was read from.
	Source ClusterRangeSource `json:"source" protobuf:"bytes,3,opt,name=source,casttype=ClusterRangeSource"`
}

// ClusterRangeUse is the kind of endpoints with addresses in a CIDR.
// +enum
type ClusterRangeUse string

const (
	// RangeOfPods is a CIDR with addresses of pods.
	RangeOfPods ClusterRangeUse = "Pods"
	// RangeOfServices is a CIDR with cluster IPs of Services.
	RangeOfServices ClusterRangeUse = "Services"
	// RangeOfNodes is a CIDR with addresses of nodes.
	RangeOfNodes ClusterRangeUse = "Nodes"
	// RangeExternal is an external CIDR, which exposes non-pod endpoints to peers.
	RangeExternal ClusterRangeUse = "External"
	// RangeReserved is any other CIDR that must not be used for a peer; a CIDR of a peer that
	// overlaps it is remapped.
	RangeReserved ClusterRangeUse = "Reserved"
)

// ClusterRangeSource is the value of the chart, or the kind of object, that a CIDR was read from.
// +enum
type ClusterRangeSource string

const (
	// SourceValue is a value of the chart, which overrides detected ranges of the same use.
	SourceValue ClusterRangeSource = "Value"
	// SourceCalico is an IPPool of Calico.
	SourceCalico ClusterRangeSource = "Calico"
	// SourceCilium is the ConfigMap cilium-config or a CiliumNode.
	SourceCilium ClusterRangeSource = "Cilium"
	// SourceFlannel is the ConfigMap kube-flannel-cfg.
	SourceFlannel ClusterRangeSource = "Flannel"
	// SourceKubeadm is the ConfigMap kubeadm-config.
	SourceKubeadm ClusterRangeSource = "Kubeadm"
	// SourceK3s is the annotation of a Node with the arguments of k3s or RKE2.
	SourceK3s ClusterRangeSource = "K3s"
	// SourceNode is a Node: spec.podCIDRs, or its addresses in status.
	SourceNode ClusterRangeSource = "Node"
	// SourcePod means that the CIDR was derived from the addresses of running pods, because no
	// other source has a pod CIDR.
	SourcePod ClusterRangeSource = "Pod"
	// SourceServiceCIDR is a ServiceCIDR.
	SourceServiceCIDR ClusterRangeSource = "ServiceCIDR"
	// SourceAPIServer means that the CIDR was derived from the endpoints of the Service kubernetes.
	SourceAPIServer ClusterRangeSource = "APIServer"
	// SourceAddressPool is the AddressPool external.
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
