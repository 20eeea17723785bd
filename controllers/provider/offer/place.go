// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Place returns the labels that nodes must have to run pods of the offered node with the name offered: the labels in
// selector, and those of the offered node in the offers. If no offer lists the offered node any more, its pods may
// run on any shared node. preferred is the name of the node that the offered node represents; empty if that node is
// not shared or not schedulable any more.
func Place(
	nodes []*corev1.Node, offers []*v1alpha1.ResourceOffer, selector map[string]string, consumerID, offered string,
) (required map[string]string, preferred string) {
	required = map[string]string{}
	for _, offer := range offers {
		for _, node := range offer.Spec.Nodes {
			if node.Name == offered {
				maps.Copy(required, node.Labels)
			}
		}
	}
	maps.Copy(required, selector)
	for _, node := range nodes {
		if isShared(node, selector) && schedulable(node) && offeredNode(node, consumerID) == offered {
			return required, node.Name
		}
	}
	return required, ""
}
