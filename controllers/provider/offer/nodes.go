// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
)

// offeredNodeLength is the length of the names of offered nodes: 64 bits.
const offeredNodeLength = 16

// offeredNode returns the name of a node in the offers to a consumer. The name is a hash, which does not
// change, does not reveal the name of the node, and differs between consumers, so that two consumers
// cannot find out that they use the same node.
func offeredNode(node *corev1.Node, consumerID string) string {
	sum := sha256.Sum256([]byte(consumerID + "/" + string(node.UID)))
	return hex.EncodeToString(sum[:])[:offeredNodeLength]
}

// isShared reports whether a node is shared with consumers: it is not virtual and matches the selector.
func isShared(node *corev1.Node, selector map[string]string) bool {
	return node.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode &&
		labels.SelectorFromSet(selector).Matches(labels.Set(node.Labels))
}

// candidate is a shared node that can be offered.
type candidate struct {
	*corev1.Node
	name string
	// rank is the position of the node in the existing offer, or a greater number if it was not offered.
	rank    int
	offered bool
}

// offerNodes returns the shared nodes for an offer of shape PerNode: at most MaxOfferedNodes, whose
// resources together do not exceed the limits. So that offers are stable, nodes that were offered before
// come first, in the same order, and then the oldest ones. A node that was offered before stays in the
// offer, with resources of zero, while it is not schedulable or other nodes exhaust the limits. It is
// removed if it is deleted or no longer shared, unless the offer would have no nodes then.
func offerNodes(
	nodes []*corev1.Node, t terms, consumerID string, before []v1alpha1.OfferedNode,
) []v1alpha1.OfferedNode {
	rest := t.most.DeepCopy()
	var offered []v1alpha1.OfferedNode
	for _, node := range candidates(nodes, t.nodeSelector, consumerID, before) {
		if len(offered) == v1alpha1.MaxOfferedNodes {
			break
		}
		share := percentage(node.Status.Allocatable, t.percent, rest)
		switch full := percentage(node.Status.Allocatable, t.percent, t.most); {
		case schedulable(node.Node) && carries(share, full):
			for name := range rest {
				if taken, ok := share[name]; ok {
					left := rest[name].DeepCopy()
					left.Sub(taken)
					rest[name] = left
				}
			}
		case node.offered:
			share = nothingOf(full)
		default:
			continue
		}
		if len(share) > 0 {
			offered = append(offered, v1alpha1.OfferedNode{Name: node.name, Resources: share,
				Labels: selected(node.Labels, t.nodeLabels)})
		}
	}
	if len(offered) == 0 {
		return nothingOn(before)
	}
	return offered
}

// nothingOn returns a copy of nodes in which all resources are zero.
func nothingOn(nodes []v1alpha1.OfferedNode) []v1alpha1.OfferedNode {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Resources = nothingOf(nodes[i].Resources)
	}
	return nodes
}

// candidates returns the shared nodes in the order in which they are offered.
func candidates(
	nodes []*corev1.Node, selector map[string]string, consumerID string, before []v1alpha1.OfferedNode,
) []candidate {
	ranks := map[string]int{}
	for i, node := range before {
		ranks[node.Name] = i
	}
	var found []candidate
	for _, node := range nodes {
		if !isShared(node, selector) {
			continue
		}
		c := candidate{Node: node, name: offeredNode(node, consumerID), rank: len(before)}
		if rank, ok := ranks[c.name]; ok {
			c.rank, c.offered = rank, true
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.name, b.name))
	})
	return found
}

// carries reports whether pods can run on a share of a node: it has CPU, memory and pods, as far as full has
// them. full is the share that the node would have if no other node used the limits.
func carries(share, full corev1.ResourceList) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if _, wanted := full[name]; wanted {
			if _, ok := share[name]; !ok {
				return false
			}
		}
	}
	return len(share) > 0
}

// nothingOf returns a list with the same resources, all zero.
func nothingOf(list corev1.ResourceList) corev1.ResourceList {
	nothing := corev1.ResourceList{}
	for name := range list {
		nothing[name] = resource.Quantity{}
	}
	return nothing
}

// selected returns the labels with these keys.
func selected(of map[string]string, keys []string) map[string]string {
	labels := map[string]string{}
	for _, key := range keys {
		if value, ok := of[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// total returns the sum of the resources of offered nodes.
func total(nodes []v1alpha1.OfferedNode) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, node := range nodes {
		quota.Add(sum, node.Resources)
	}
	return sum
}

// nodesDiffer reports whether the nodes in an offer should be replaced, because a node was added or
// removed, or its labels changed, or its resources changed by at least percent.
func nodesDiffer(offered, possible []v1alpha1.OfferedNode, percent int) bool {
	if len(offered) != len(possible) {
		return true
	}
	was := map[string]v1alpha1.OfferedNode{}
	for _, node := range offered {
		was[node.Name] = node
	}
	for _, now := range possible {
		before, ok := was[now.Name]
		if !ok || !maps.Equal(before.Labels, now.Labels) || resourcesDiffer(before.Resources, now.Resources, nil, percent) {
			return true
		}
	}
	return false
}
