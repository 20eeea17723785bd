// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ClusterSelector selects providers by the labels of their virtual nodes, with the same rules as the
// scheduler. The zero value selects all.
type ClusterSelector struct {
	// terms is nil if all providers are selected.
	terms *nodeaffinity.NodeSelector
}

// NewClusterSelector parses spec.clusterSelector of a NamespaceOffloading. It fails if a term is
// malformed.
func NewClusterSelector(selector corev1.NodeSelector) (ClusterSelector, error) {
	if len(selector.NodeSelectorTerms) == 0 {
		return ClusterSelector{}, nil
	}
	terms, err := nodeaffinity.NewNodeSelector(&selector)
	if err != nil {
		return ClusterSelector{}, fmt.Errorf("parsing the cluster selector: %w", err)
	}
	return ClusterSelector{terms: terms}, nil
}

// Selects reports whether the selector matches a virtual node, and so selects its provider. Like the
// scheduler it uses the labels of the Node. If node is nil, it uses the labels that the Node will have.
func (s ClusterSelector) Selects(virtualNode *v1alpha1.VirtualNode, node *corev1.Node) bool {
	if s.terms == nil {
		return true
	}
	if node == nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   virtualNode.Spec.NodeName,
			Labels: VirtualNodeLabels(virtualNode),
		}}
	}
	return s.terms.Match(node)
}

// VirtualNodeLabels returns the labels that the virtual kubelet sets on the Node of a VirtualNode,
// apart from the labels that every kubelet sets.
func VirtualNodeLabels(virtualNode *v1alpha1.VirtualNode) map[string]string {
	labels := make(map[string]string, len(virtualNode.Spec.Labels)+2)
	for key, value := range virtualNode.Spec.Labels {
		labels[key] = value
	}
	labels[v1alpha1.LabelType] = v1alpha1.TypeVirtualNode
	labels[v1alpha1.LabelRemoteClusterID] = virtualNode.Spec.ClusterID
	return labels
}
