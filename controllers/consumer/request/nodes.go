// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// ensureNodes creates, updates and deletes the virtual nodes of an offer: one for the whole offer or,
// if the offer lists nodes, one for each of them. It does not change virtual nodes that an
// administrator created.
func (r *Reconciler) ensureNodes(ctx context.Context, p *peering, offer *v1alpha1.ResourceOffer) error {
	wanted := specsOf(offer)
	var own []*v1alpha1.VirtualNode
	room := v1alpha1.MaxOfferedNodes
	for _, node := range p.nodes {
		if isOwn(node, p.fc) {
			own = append(own, node)
			if node.Spec.OfferedNode != "" {
				room--
			}
		}
	}
	all := slices.Clone(p.nodes)
	for _, spec := range wanted {
		index := slices.IndexFunc(own, func(node *v1alpha1.VirtualNode) bool {
			return node.Spec.OfferedNode == spec.OfferedNode
		})
		if index >= 0 {
			if err := r.changeNode(ctx, own[index], spec); err != nil {
				return err
			}
			continue
		}
		// Virtual nodes that are being deleted count, too. Otherwise a provider that keeps changing its
		// offered nodes could run any number of virtual kubelets on this cluster.
		if spec.OfferedNode != "" && room <= 0 {
			continue
		}
		created, err := r.createNode(ctx, p.fc, offer.Namespace, spec, all, own)
		if created == nil || err != nil {
			// If created is nil, the cache lacks a virtual node, and a later reconcile continues.
			return err
		}
		all, room = append(all, created), room-1
	}
	return r.deleteNodes(ctx, surplus(own, wanted))
}

// specsOf returns the specs of the desired virtual nodes of an offer, without node names.
func specsOf(offer *v1alpha1.ResourceOffer) []v1alpha1.VirtualNodeSpec {
	whole := v1alpha1.VirtualNodeSpec{
		ClusterID: offer.Spec.ClusterID, OfferName: offer.Name, Resources: offer.Spec.Resources, Labels: offer.Spec.Labels,
	}
	if len(offer.Spec.Nodes) == 0 {
		return []v1alpha1.VirtualNodeSpec{whole}
	}
	specs := make([]v1alpha1.VirtualNodeSpec, len(offer.Spec.Nodes))
	for i, node := range offer.Spec.Nodes {
		specs[i] = whole
		specs[i].OfferedNode, specs[i].Resources, specs[i].Labels = node.Name, node.Resources, map[string]string{}
		maps.Copy(specs[i].Labels, offer.Spec.Labels)
		maps.Copy(specs[i].Labels, node.Labels)
	}
	return specs
}

// isOwn reports whether this controller, not an administrator, created a virtual node.
func isOwn(node *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster) bool {
	if node.Spec.OfferedNode == "" {
		return node.Name == fc.Name
	}
	return node.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// createNode creates a virtual node. It copies apiAccess, reflection and offloadingPatch, which an administrator may
// set, from the virtual node that reflection.DecidingVirtualNode selects. It returns nil if a virtual node of that
// name exists and is not in the cache, because its number may then be in use by another offered node.
func (r *Reconciler) createNode(
	ctx context.Context, fc *v1alpha1.ForeignCluster, namespace string, wanted v1alpha1.VirtualNodeSpec,
	all, own []*v1alpha1.VirtualNode,
) (*v1alpha1.VirtualNode, error) {
	name, err := r.nodeName(ctx, fc, namespace, wanted.OfferedNode, all)
	if err != nil {
		return nil, fmt.Errorf("finding a name for a virtual node of offer %s: %w", wanted.OfferName, err)
	}
	wanted.NodeName = naming.NodeName(name)
	if like := reflection.DecidingVirtualNode(own, wanted.ClusterID); like != nil {
		wanted.APIAccess, wanted.Reflection = like.Spec.APIAccess, like.Spec.Reflection
		wanted.OffloadingPatch = like.Spec.OffloadingPatch
	}
	node := &v1alpha1.VirtualNode{ObjectMeta: kit.Managed(namespace, name), Spec: wanted}
	switch err := r.Client.Create(ctx, node); {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("creating a virtual node of offer %s: %w", wanted.OfferName, err)
	}
	return node, nil
}

func (r *Reconciler) changeNode(
	ctx context.Context, node *v1alpha1.VirtualNode, wanted v1alpha1.VirtualNodeSpec,
) error {
	if node.DeletionTimestamp != nil {
		return nil
	}
	changed := node.DeepCopy()
	changed.Spec.OfferName, changed.Spec.Resources, changed.Spec.Labels = wanted.OfferName, wanted.Resources, wanted.Labels
	if _, err := kit.Commit(ctx, r.Client, node, changed); err != nil {
		return fmt.Errorf("changing virtual node %s of offer %s: %w", node.Name, wanted.OfferName, err)
	}
	return nil
}

func (r *Reconciler) deleteNodes(ctx context.Context, nodes []*v1alpha1.VirtualNode) error {
	for _, node := range nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		if err := kit.Delete(ctx, r.Client, node); err != nil {
			return err
		}
	}
	return nil
}

// nodeName returns the name of a new virtual node: the name of the ForeignCluster, followed by the first
// free number if the virtual node represents one node of the offer.
func (r *Reconciler) nodeName(
	ctx context.Context, fc *v1alpha1.ForeignCluster, namespace, offeredNode string, nodes []*v1alpha1.VirtualNode,
) (string, error) {
	if offeredNode == "" {
		return fc.Name, nil
	}
	for number := 1; ; number++ {
		name := fmt.Sprintf("%s-%d", fc.Name, number)
		if slices.ContainsFunc(nodes, func(node *v1alpha1.VirtualNode) bool { return hasName(node, name) }) {
			continue
		}
		if taken, err := r.taken(ctx, namespace, name); err != nil || !taken {
			return name, err
		}
	}
}

func hasName(node *v1alpha1.VirtualNode, name string) bool {
	return node.Name == name || node.Spec.NodeName == naming.NodeName(name)
}

// taken reports whether a virtual node in the peer namespace must not get a name, because another ForeignCluster, or
// a virtual node in another peer namespace, has it. The name must be unique in the cluster, because the Node and the
// ClusterRoleBinding of the virtual kubelet are named after it.
func (r *Reconciler) taken(ctx context.Context, namespace, name string) (bool, error) {
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.ForeignCluster{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	var all v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	return slices.ContainsFunc(all.Items, func(node v1alpha1.VirtualNode) bool {
		return node.Namespace != namespace && hasName(&node, name)
	}), nil
}

// surplus returns the virtual nodes that are no longer offered. If the offer changed from one virtual node for the
// whole offer to one for each node, or back, it returns the former virtual nodes only once all new ones are ready, so
// that their pods can run there.
func surplus(own []*v1alpha1.VirtualNode, wanted []v1alpha1.VirtualNodeSpec) []*v1alpha1.VirtualNode {
	ready := map[string]bool{}
	for _, node := range own {
		ready[node.Spec.OfferedNode] = node.DeletionTimestamp == nil &&
			meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionReady)
	}
	offered, allReady := map[string]bool{}, true
	for _, spec := range wanted {
		offered[spec.OfferedNode] = true
		allReady = allReady && ready[spec.OfferedNode]
	}
	var surplus []*v1alpha1.VirtualNode
	for _, node := range own {
		sameShape := offered[""] == (node.Spec.OfferedNode == "")
		if !offered[node.Spec.OfferedNode] && (sameShape || allReady) {
			surplus = append(surplus, node)
		}
	}
	return surplus
}
