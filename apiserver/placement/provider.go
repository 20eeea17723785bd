// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Provider is a foreign cluster with the virtual nodes that stand for its offers.
type Provider struct {
	// Cluster is the foreign cluster.
	Cluster *v1alpha1.ForeignCluster
	// VirtualNodes are those in its peer namespace.
	VirtualNodes []*v1alpha1.VirtualNode
}

// Ending reports whether the peering with a provider is being taken apart, or is none. One
// that is not wanted any more stays while the provider stores data that holds it.
func Ending(cluster *v1alpha1.ForeignCluster) bool {
	phase := cluster.Status.OutgoingPeering
	return Provider{Cluster: cluster}.Unwanted() && (phase == v1alpha1.PeeringDisconnecting || phase == v1alpha1.PeeringNone)
}

// Unwanted reports whether the outgoing peering is disabled or its ForeignCluster is deleted.
func (p Provider) Unwanted() bool {
	return !p.Cluster.DeletionTimestamp.IsZero() || p.Cluster.Spec.Outgoing != v1alpha1.PeeringEnabled
}

// Nodes finds a Node by its name, and is nil where there is none.
type Nodes func(name string) *corev1.Node

// Refuses returns why no namespace can be extended to the provider any more, or
// not yet; empty means that one can.
func (p Provider) Refuses() string {
	switch {
	case !p.Cluster.DeletionTimestamp.IsZero():
		return "The cluster is being unpeered."
	case p.Cluster.Spec.Outgoing != v1alpha1.PeeringEnabled:
		return "This cluster does not borrow from it."
	case !slices.ContainsFunc(p.VirtualNodes, isUsable):
		return "The cluster has no virtual node here."
	}
	return ""
}

// Choose returns why a namespace with this selector is not extended to the
// provider; empty means that it is.
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

// NamespaceBelongs reports whether a namespace was made for the peering with a
// foreign cluster, and is no other one of the same name.
func NamespaceBelongs(namespace *corev1.Namespace, foreignCluster, role string) bool {
	return namespace.Labels[v1alpha1.LabelForeignCluster] == foreignCluster && namespace.Labels[v1alpha1.LabelRole] == role
}

// NodeBelongs reports whether a Node stands for a virtual node of the cluster
// with that id, and is no other one of the same name.
func NodeBelongs(node *corev1.Node, clusterID string) bool {
	return node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode && node.Labels[v1alpha1.LabelRemoteClusterID] == clusterID
}

// OffersPods reports whether the offer behind a virtual node's Node has room for any pod. It
// has none while the provider's administrator cordons this cluster.
func OffersPods(node *corev1.Node) bool {
	pods, known := node.Status.Allocatable[corev1.ResourcePods]
	return !known || pods.Sign() > 0
}
