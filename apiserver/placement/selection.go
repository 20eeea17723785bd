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

// ClusterSelector chooses clusters by their virtual nodes, as the scheduler
// chooses nodes.
type ClusterSelector struct {
	// terms is nil when every cluster is chosen.
	terms *nodeaffinity.NodeSelector
}

// NewClusterSelector reads the selector of a NamespaceOffloading. The error
// names the terms that cannot be read.
func NewClusterSelector(selector corev1.NodeSelector) (ClusterSelector, error) {
	if len(selector.NodeSelectorTerms) == 0 {
		return ClusterSelector{}, nil
	}
	terms, err := nodeaffinity.NewNodeSelector(&selector)
	if err != nil {
		return ClusterSelector{}, fmt.Errorf("read the cluster selector: %w", err)
	}
	return ClusterSelector{terms: terms}, nil
}

// Selects reports whether the cluster behind a virtual node is chosen. The
// labels that count are those of the node, which the scheduler looks at;
// while there is no node, those that it will be given.
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

// VirtualNodeLabels are the labels that the node of a VirtualNode gets, but
// for those that every kubelet puts.
func VirtualNodeLabels(virtualNode *v1alpha1.VirtualNode) map[string]string {
	labels := make(map[string]string, len(virtualNode.Spec.Labels)+2)
	for key, value := range virtualNode.Spec.Labels {
		labels[key] = value
	}
	labels[v1alpha1.LabelType] = v1alpha1.TypeVirtualNode
	labels[v1alpha1.LabelRemoteClusterID] = virtualNode.Spec.ClusterID
	return labels
}
