// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// VirtualNodes is the definition of VirtualNodes. Each represents a ResourceOffer, or one node in a ResourceOffer, as a
// Node.
var VirtualNodes = Kind[*federation.VirtualNode, federation.VirtualNodeSpec, federation.VirtualNodeStatus]{
	Resource: "virtualnodes", Singular: "virtualnode", ShortNames: []string{"vn"},
	New:        func() runtime.Object { return &federation.VirtualNode{} },
	NewList:    func() runtime.Object { return &federation.VirtualNodeList{} },
	Namespaced: true,
	Parts: func(obj *federation.VirtualNode) (*federation.VirtualNodeSpec, *federation.VirtualNodeStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateVirtualNode,
	ValidateUpdate:       validation.ValidateVirtualNodeUpdate,
	ValidateStatusUpdate: validation.ValidateVirtualNodeStatusUpdate,
	Fields: func(obj *federation.VirtualNode) fields.Set {
		return fields.Set{"spec.clusterID": obj.Spec.ClusterID}
	},
	Columns: store.Table[*federation.VirtualNode]{
		{Name: "Cluster", Description: "ForeignCluster of the provider", Cell: func(n *federation.VirtualNode) any {
			if cluster := naming.ForeignClusterOf(n.Namespace); cluster != "" {
				return cluster
			}
			return n.Spec.ClusterID
		}},
		{Name: "Node", Description: "the name of the Node", Cell: func(n *federation.VirtualNode) any {
			return n.Spec.NodeName
		}},
		{Name: "Ready", Description: "whether the node accepts pods", Cell: func(n *federation.VirtualNode) any {
			if ready := meta.FindStatusCondition(n.Status.Conditions, federation.ConditionReady); ready != nil {
				return string(ready.Status)
			}
			return string(metav1.ConditionUnknown)
		}},
		{Name: "Since", Description: "time since Ready changed", Cell: func(n *federation.VirtualNode) any {
			if ready := meta.FindStatusCondition(n.Status.Conditions, federation.ConditionReady); ready != nil {
				return store.Age(ready.LastTransitionTime)
			}
			return store.None
		}},
		{Name: "Pods", Description: "number of pods bound to the node, and its pod capacity",
			Cell: func(n *federation.VirtualNode) any {
				return fmt.Sprintf("%d/%s", n.Status.Pods, store.Quantity(n.Spec.Resources, corev1.ResourcePods))
			}},
		{Name: "CPU", Description: "the node's CPU capacity", Cell: func(n *federation.VirtualNode) any {
			return store.Quantity(n.Spec.Resources, corev1.ResourceCPU)
		}},
		{Name: "Memory", Description: "the node's memory capacity", Cell: func(n *federation.VirtualNode) any {
			return store.Quantity(n.Spec.Resources, corev1.ResourceMemory)
		}},
		{Name: "Offer", Wide: true, Description: "ResourceOffer that the node represents",
			Cell: func(n *federation.VirtualNode) any {
				return store.OrNone(n.Spec.OfferName)
			}},
		{Name: "Offered Node", Wide: true, Description: "node in the ResourceOffer that the node represents",
			Cell: func(n *federation.VirtualNode) any {
				return store.OrNone(n.Spec.OfferedNode)
			}},
	},
}
