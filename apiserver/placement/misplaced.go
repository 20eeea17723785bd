// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
)

// Placement says where the pods of an offloaded namespace may run. New pods
// are held to it by the admission policy federation-placement; it is asked
// about those that run already.
type Placement struct {
	strategy     v1alpha1.PodOffloadingStrategy
	selector     ClusterSelector
	terms        []corev1.NodeSelectorTerm
	virtualNodes map[string]*v1alpha1.VirtualNode
	nodes        Nodes
}

// NewPlacement makes the placement of a namespace that is offloaded like this,
// in a cluster with these providers and Nodes. The error names the selector that
// cannot be read.
func NewPlacement(spec *v1alpha1.NamespaceOffloadingSpec, providers []Provider, nodes Nodes) (Placement, error) {
	selector, err := NewClusterSelector(spec.ClusterSelector)
	if err != nil {
		return Placement{}, err
	}
	return Placement{strategy: spec.PodOffloadingStrategy, selector: selector, terms: spec.ClusterSelector.NodeSelectorTerms, virtualNodes: virtualNodes(providers), nodes: nodes}, nil
}

// Choose returns why the namespace is not extended to a provider; empty means that
// it is.
func (p Placement) Choose(provider Provider) string { return provider.Choose(p.selector, p.nodes) }

// PlacesAnywhere reports whether pods may run on every node and every virtual
// node: then none is ever misplaced, and none loses its twin to the selector.
func PlacesAnywhere(spec *v1alpha1.NamespaceOffloadingSpec) bool {
	return spec.PodOffloadingStrategy != v1alpha1.Local && spec.PodOffloadingStrategy != v1alpha1.Remote && len(spec.ClusterSelector.NodeSelectorTerms) == 0
}

// virtualNodes finds virtual nodes by the names of their Nodes.
func virtualNodes(providers []Provider) map[string]*v1alpha1.VirtualNode {
	byNode := map[string]*v1alpha1.VirtualNode{}
	for _, provider := range providers {
		for _, virtualNode := range provider.VirtualNodes {
			byNode[virtualNode.Spec.NodeName] = virtualNode
		}
	}
	return byNode
}

// Misplaced returns why a pod may not be where it runs; empty means that it may,
// or that it is left alone: a pod without a node runs nowhere yet, one that
// finished or is ending has nothing left to move, and those of DaemonSets and
// static pods belong to their nodes.
func (p Placement) Misplaced(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" || podspec.Finished(pod) || !pod.DeletionTimestamp.IsZero() || podspec.BelongsToItsNode(pod) {
		return ""
	}
	if _, moves := pod.Labels[volume.LabelMove]; moves {
		// It reads or writes a volume where that is.
		return ""
	}
	virtualNode, node := p.virtualNodes[pod.Spec.NodeName], p.nodes(pod.Spec.NodeName)
	remote := virtualNode != nil
	if node != nil {
		remote = node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
	}
	switch {
	case remote && p.strategy == v1alpha1.Local:
		return "spec.podOffloadingStrategy is Local, and its node is another cluster."
	case !remote && p.strategy == v1alpha1.Remote:
		return "spec.podOffloadingStrategy is Remote, and its node is one of this cluster."
	case remote && !p.selector.Selects(virtualNode, node):
		return "spec.clusterSelector does not match its node."
	}
	return ""
}

// PodsAt counts the pods that keep their namespace extended to the provider:
// those on its virtual nodes that have not finished.
func (p Provider) PodsAt(pods []*corev1.Pod) int {
	byNode, count := virtualNodes([]Provider{p}), 0
	for _, pod := range pods {
		if byNode[pod.Spec.NodeName] != nil && !podspec.Finished(pod) {
			count++
		}
	}
	return count
}
