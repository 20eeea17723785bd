// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// makeNodes makes the virtual nodes of an offer: one of all of it, or one of
// each node that is offered. Those that an administrator made are left alone.
func (r *consumer) makeNodes(ctx context.Context, fc *v1alpha1.ForeignCluster, offer *v1alpha1.ResourceOffer, nodes []*v1alpha1.VirtualNode) error {
	wanted := specsOf(offer)
	var made []*v1alpha1.VirtualNode
	room := v1alpha1.MaxOfferedNodes
	for _, node := range nodes {
		if standsFor(node, fc) {
			made = append(made, node)
			if node.Spec.OfferedNode != "" {
				room--
			}
		}
	}
	all := slices.Clone(nodes)
	for _, spec := range wanted {
		index := slices.IndexFunc(made, func(node *v1alpha1.VirtualNode) bool { return node.Spec.OfferedNode == spec.OfferedNode })
		if index >= 0 {
			if err := r.changeNode(ctx, made[index], spec); err != nil {
				return err
			}
			continue
		}
		// Those that are still going away count: a provider that offers others all
		// the time has no more virtual kubelets run here than one that does not.
		if spec.OfferedNode != "" && room <= 0 {
			continue
		}
		created, err := r.newNode(ctx, fc, offer.Namespace, spec, all, made)
		if created == nil || err != nil {
			// Without one, others are there than is known here.
			return err
		}
		all, room = append(all, created), room-1
	}
	return r.removeNodes(ctx, surplus(made, wanted))
}

// specsOf are the virtual nodes of an offer, but for their names.
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

// standsFor tells whether a virtual node is one that this controller makes, and
// not an administrator.
func standsFor(node *v1alpha1.VirtualNode, fc *v1alpha1.ForeignCluster) bool {
	if node.Spec.OfferedNode == "" {
		return node.Name == fc.Name
	}
	return node.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// newNode makes a virtual node that is not there yet. What an administrator
// decided about those that are, as that no token leaves, holds for it from the
// beginning. It makes none if that is there all the same and has not been seen:
// a number that is free may not be the right one then.
func (r *consumer) newNode(ctx context.Context, fc *v1alpha1.ForeignCluster, namespace string, wanted v1alpha1.VirtualNodeSpec, all, made []*v1alpha1.VirtualNode) (*v1alpha1.VirtualNode, error) {
	name, err := r.nameNode(fc, namespace, wanted.OfferedNode, all)
	if err != nil {
		return nil, fmt.Errorf("find a name for a virtual node of offer %s: %w", wanted.OfferName, err)
	}
	wanted.NodeName = naming.NodeName(name)
	if like := reflection.DecidingVirtualNode(made, wanted.ClusterID); like != nil {
		wanted.APIAccess, wanted.Reflection, wanted.OffloadingPatch = like.Spec.APIAccess, like.Spec.Reflection, like.Spec.OffloadingPatch
	}
	node := &v1alpha1.VirtualNode{ObjectMeta: kit.Managed(namespace, name), Spec: wanted}
	switch err := r.createNode(ctx, node); {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("make a virtual node of offer %s: %w", wanted.OfferName, err)
	}
	return node, nil
}

func (r *consumer) changeNode(ctx context.Context, node *v1alpha1.VirtualNode, wanted v1alpha1.VirtualNodeSpec) error {
	if node.DeletionTimestamp != nil {
		return nil
	}
	changed := node.DeepCopy()
	changed.Spec.OfferName, changed.Spec.Resources, changed.Spec.Labels = wanted.OfferName, wanted.Resources, wanted.Labels
	if _, err := r.commitNode(ctx, node, changed); err != nil {
		return fmt.Errorf("change virtual node %s of offer %s: %w", node.Name, wanted.OfferName, err)
	}
	return nil
}

// nameNode names a new virtual node: after the cluster, and after a number, the
// first that is free, if it stands for a node of it.
func (r *consumer) nameNode(fc *v1alpha1.ForeignCluster, namespace, offeredNode string, nodes []*v1alpha1.VirtualNode) (string, error) {
	if offeredNode == "" {
		return fc.Name, nil
	}
	for number := 1; ; number++ {
		name := fmt.Sprintf("%s-%d", fc.Name, number)
		if slices.ContainsFunc(nodes, func(node *v1alpha1.VirtualNode) bool {
			return node.Name == name || node.Spec.NodeName == naming.NodeName(name)
		}) {
			continue
		}
		if taken, err := r.taken(namespace, name); err != nil || !taken {
			return name, err
		}
	}
}

// surplus are the virtual nodes that nothing is offered for any more. When an
// offer changes its shape, those of the old one stay until the new ones can take
// their pods.
func surplus(made []*v1alpha1.VirtualNode, wanted []v1alpha1.VirtualNodeSpec) []*v1alpha1.VirtualNode {
	ready := map[string]bool{}
	for _, node := range made {
		ready[node.Spec.OfferedNode] = node.DeletionTimestamp == nil && meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionReady)
	}
	there, allReady := map[string]bool{}, true
	for _, spec := range wanted {
		there[spec.OfferedNode] = true
		allReady = allReady && ready[spec.OfferedNode]
	}
	var gone []*v1alpha1.VirtualNode
	for _, node := range made {
		sameShape := there[""] == (node.Spec.OfferedNode == "")
		if !there[node.Spec.OfferedNode] && (sameShape || allReady) {
			gone = append(gone, node)
		}
	}
	return gone
}
