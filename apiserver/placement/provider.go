// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Provider is a foreign cluster with the virtual nodes of its offers.
type Provider struct {
	// Cluster is the foreign cluster.
	Cluster *v1alpha1.ForeignCluster
	// VirtualNodes are the virtual nodes of its peer namespace.
	VirtualNodes []*v1alpha1.VirtualNode
}

// Ending reports whether the peering with a provider is disconnecting, or has ended. A disabled
// peering stays while the provider stores volumes that hold it.
func Ending(cluster *v1alpha1.ForeignCluster) bool {
	phase := cluster.Status.OutgoingPeering
	return Provider{Cluster: cluster}.Unwanted() &&
		(phase == v1alpha1.PeeringDisconnecting || phase == v1alpha1.PeeringNone)
}

// Unwanted reports whether the outgoing peering is disabled or its ForeignCluster is deleted.
func (p Provider) Unwanted() bool {
	return !p.Cluster.DeletionTimestamp.IsZero() || p.Cluster.Spec.Outgoing != v1alpha1.PeeringEnabled
}

// Nodes returns a Node by its name; nil if it does not exist.
type Nodes func(name string) *corev1.Node

// Refuses returns why no namespace can be offloaded to the provider; empty means that one can.
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

// Choose returns why a namespace with this selector is not offloaded to the provider; empty means
// that it is.
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

// NamespaceBelongs reports whether a namespace belongs to the peering with a foreign cluster in a
// role, by its labels.
func NamespaceBelongs(namespace *corev1.Namespace, foreignCluster, role string) bool {
	return namespace.Labels[v1alpha1.LabelForeignCluster] == foreignCluster && namespace.Labels[v1alpha1.LabelRole] == role
}

// NodeBelongs reports whether a Node is a virtual node of the cluster with that ID, by its labels.
func NodeBelongs(node *corev1.Node, clusterID string) bool {
	return node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode &&
		node.Labels[v1alpha1.LabelRemoteClusterID] == clusterID
}

// OffersPods reports whether the Node of a virtual node can have pods. It cannot while the
// provider's administrator cordons this cluster.
func OffersPods(node *corev1.Node) bool {
	pods, known := node.Status.Allocatable[corev1.ResourcePods]
	return !known || pods.Sign() > 0
}
