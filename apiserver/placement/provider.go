// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Provider is a ForeignCluster together with its virtual nodes.
type Provider struct {
	// Cluster is the foreign cluster.
	Cluster *v1alpha1.ForeignCluster
	// VirtualNodes are the VirtualNodes in the peer namespace of Cluster.
	VirtualNodes []*v1alpha1.VirtualNode
}

// Ending reports whether the outgoing peering with a provider is disconnecting or has ended. It returns
// false for a disabled peering that is kept because the provider stores data of volumes.
func Ending(cluster *v1alpha1.ForeignCluster) bool {
	phase := cluster.Status.OutgoingPeering
	return Provider{Cluster: cluster}.Unwanted() &&
		(phase == v1alpha1.PeeringDisconnecting || phase == v1alpha1.PeeringNone)
}

// Unwanted reports whether the outgoing peering is disabled or the ForeignCluster is being deleted.
func (p Provider) Unwanted() bool {
	return !p.Cluster.DeletionTimestamp.IsZero() || p.Cluster.Spec.Outgoing != v1alpha1.PeeringEnabled
}

// Nodes returns the Node with a name, or nil if it does not exist.
type Nodes func(name string) *corev1.Node

// Refuses returns the reason for which no namespace can be offloaded to the provider, or an empty
// string if namespaces can be offloaded.
func (p Provider) Refuses() string {
	switch {
	case !p.Cluster.DeletionTimestamp.IsZero():
		return "The cluster is being unpeered."
	case p.Cluster.Spec.Outgoing != v1alpha1.PeeringEnabled:
		return "The outgoing peering is not enabled."
	case !slices.ContainsFunc(p.VirtualNodes, isUsable):
		return "The cluster has no virtual node."
	}
	return ""
}

// Choose returns the reason for which a namespace with this selector is not offloaded to the provider,
// or an empty string if it is offloaded.
func (p Provider) Choose(selector ClusterSelector, nodes Nodes) string {
	if refusal := p.Refuses(); refusal != "" {
		return refusal
	}
	if !slices.ContainsFunc(p.VirtualNodes, func(virtualNode *v1alpha1.VirtualNode) bool {
		return isUsable(virtualNode) && selector.Selects(virtualNode, nodes(virtualNode.Spec.NodeName))
	}) {
		return "No virtual node of the cluster matches the selector."
	}
	return ""
}

func isUsable(virtualNode *v1alpha1.VirtualNode) bool { return virtualNode.DeletionTimestamp.IsZero() }

// NamespaceBelongs reports whether the labels of a namespace contain the given ForeignCluster and the given role, for
// example v1alpha1.RoleTenant.
func NamespaceBelongs(namespace *corev1.Namespace, foreignCluster, role string) bool {
	return namespace.Labels[v1alpha1.LabelForeignCluster] == foreignCluster && namespace.Labels[v1alpha1.LabelRole] == role
}

// NodeBelongs reports whether the labels of a Node identify it as a virtual node of the provider with
// this cluster ID.
func NodeBelongs(node *corev1.Node, clusterID string) bool {
	return node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode &&
		node.Labels[v1alpha1.LabelRemoteClusterID] == clusterID
}

// OffersPods reports whether the Node of a virtual node has allocatable pods, or does not limit their number. It has
// none, for example, while an administrator of the provider has set spec.cordoned of the ForeignCluster that represents
// the local cluster.
func OffersPods(node *corev1.Node) bool {
	pods, known := node.Status.Allocatable[corev1.ResourcePods]
	return !known || pods.Sign() > 0
}
