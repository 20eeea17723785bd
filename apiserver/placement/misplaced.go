// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
)

// Placement determines on which nodes existing pods of an offloaded namespace may run. For new pods,
// the admission policy federation-placement applies the same rules.
type Placement struct {
	strategy     v1alpha1.PodOffloadingStrategy
	selector     ClusterSelector
	terms        []corev1.NodeSelectorTerm
	virtualNodes map[string]*v1alpha1.VirtualNode
	nodes        Nodes
}

// NewPlacement returns the Placement of a namespace from the spec of its NamespaceOffloading. providers
// are all ForeignClusters, and nodes returns Nodes of virtual nodes. It fails if spec.clusterSelector
// is malformed.
func NewPlacement(spec *v1alpha1.NamespaceOffloadingSpec, providers []Provider, nodes Nodes) (Placement, error) {
	selector, err := NewClusterSelector(spec.ClusterSelector)
	if err != nil {
		return Placement{}, err
	}
	return Placement{strategy: spec.PodOffloadingStrategy, selector: selector,
		terms: spec.ClusterSelector.NodeSelectorTerms, virtualNodes: virtualNodes(providers), nodes: nodes}, nil
}

// Choose returns the reason for which the namespace is not offloaded to a provider, or an empty string
// if it is.
func (p Placement) Choose(provider Provider) string { return provider.Choose(p.selector, p.nodes) }

// PlacesAnywhere reports whether pods may run on all local and all virtual nodes, so that no pod can be
// misplaced.
func PlacesAnywhere(spec *v1alpha1.NamespaceOffloadingSpec) bool {
	return spec.PodOffloadingStrategy != v1alpha1.Local && spec.PodOffloadingStrategy != v1alpha1.Remote &&
		len(spec.ClusterSelector.NodeSelectorTerms) == 0
}

// virtualNodes returns the virtual nodes of providers by the names of their Nodes.
func virtualNodes(providers []Provider) map[string]*v1alpha1.VirtualNode {
	byNode := map[string]*v1alpha1.VirtualNode{}
	for _, provider := range providers {
		for _, virtualNode := range provider.VirtualNodes {
			byNode[virtualNode.Spec.NodeName] = virtualNode
		}
	}
	return byNode
}

// Misplaced returns the reason for which a pod may not run on its node, or an empty string if it may. Exempt are pods
// without a node (MisplacedPending), finished and terminating pods, static pods, and pods of DaemonSets and of moves.
func (p Placement) Misplaced(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" || podspec.Finished(pod) || !pod.DeletionTimestamp.IsZero() ||
		podspec.BelongsToItsNode(pod) {
		return ""
	}
	if _, moves := pod.Labels[volume.LabelMove]; moves {
		// A pod of a move must run in the cluster that stores the volume, even if the spec does not
		// permit that cluster.
		return ""
	}
	virtualNode, node := p.virtualNodes[pod.Spec.NodeName], p.nodes(pod.Spec.NodeName)
	remote := virtualNode != nil
	if node != nil {
		remote = node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
	}
	switch {
	case remote && p.strategy == v1alpha1.Local:
		return "spec.podOffloadingStrategy is Local, and its node is a virtual node."
	case !remote && p.strategy == v1alpha1.Remote:
		return "spec.podOffloadingStrategy is Remote, and its node is a local node."
	case remote && !p.selector.Selects(virtualNode, node):
		return "spec.clusterSelector does not match its node."
	}
	return ""
}

// PodsAt returns how many of the pods are unfinished and on virtual nodes of the provider. While it is
// above 0, the remote namespace on the provider is kept.
func (p Provider) PodsAt(pods []*corev1.Pod) int {
	byNode, count := virtualNodes([]Provider{p}), 0
	for _, pod := range pods {
		if byNode[pod.Spec.NodeName] != nil && !podspec.Finished(pod) {
			count++
		}
	}
	return count
}
