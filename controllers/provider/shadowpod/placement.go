// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/provider/offer"
)

// Placement selects the nodes of a pod.
type Placement struct {
	// Labels are the labels of the nodes on which the pod may run. If it is empty, all nodes are allowed.
	Labels map[string]string
	// Node is the name of the preferred node; empty if no node is preferred.
	Node string
}

// Placer selects the nodes on which pods of consumers run, and limits what the pods may set.
type Placer interface {
	// Place returns the placement of a pod of the consumer foreignCluster. offeredNode is the node of the
	// offer that the pod was scheduled to; empty if the offer lists no nodes. It fails if the ForeignCluster does not
	// exist.
	Place(ctx context.Context, foreignCluster, offeredNode string) (Placement, error)
	// Limits returns the limits for pods of the consumer foreignCluster. They are the strictest ones if the ForeignCluster
	// does not exist.
	Limits(ctx context.Context, foreignCluster string) (Limits, error)
}

// Limits are the limits for pods of one consumer.
type Limits struct {
	// Policy is what the pods may set; nil means anything.
	Policy *v1alpha1.PodPolicy
	// Evict is true if running pods that Policy refuses are evicted.
	Evict bool
}

// Policy selects the nodes and the limits of each consumer.
type Policy interface {
	// SharedNodes returns the labels of the nodes that are shared with a consumer. If it returns none, all
	// nodes are shared.
	SharedNodes(incoming *v1alpha1.IncomingPolicy) map[string]string
	// PodLimits returns the limits for pods of a consumer; nil if it has none.
	PodLimits(fc *v1alpha1.ForeignCluster) *v1alpha1.PodPolicy
}

// Nodes implements Placer. It places pods on the nodes that are shared with their consumer, preferably on the
// one that the offered node represents.
type Nodes struct {
	cluster client.Reader
	policy  Policy
}

// NewNodes returns a Placer that reads the nodes in the cache of a manager.
func NewNodes(manager ctrl.Manager, policy Policy) (*Nodes, error) {
	for _, kind := range []client.Object{&v1alpha1.ForeignCluster{}, &v1alpha1.ResourceOffer{}, &corev1.Node{}} {
		if _, err := manager.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("caching %T: %w", kind, err)
		}
	}
	return &Nodes{cluster: manager.GetClient(), policy: policy}, nil
}

// Place implements Placer.
func (n *Nodes) Place(ctx context.Context, foreignCluster, offeredNode string) (Placement, error) {
	cluster, err := n.foreignCluster(ctx, foreignCluster)
	if err != nil {
		return Placement{}, err
	}
	if cluster == nil {
		return Placement{}, fmt.Errorf("placing a pod: ForeignCluster %s does not exist, so no node is shared with it",
			foreignCluster)
	}
	shared := n.policy.SharedNodes(&cluster.Spec.IncomingPolicy)
	if offeredNode == "" {
		return Placement{Labels: shared}, nil
	}
	var nodes corev1.NodeList
	if err := n.cluster.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return Placement{}, fmt.Errorf("listing nodes: %w", err)
	}
	var offers v1alpha1.ResourceOfferList
	tenant := client.InNamespace(naming.TenantNamespace(foreignCluster))
	if err := n.cluster.List(ctx, &offers, tenant, client.UnsafeDisableDeepCopy); err != nil {
		return Placement{}, fmt.Errorf("listing the resource offers of foreign cluster %s: %w", foreignCluster, err)
	}
	var place Placement
	place.Labels, place.Node = offer.Place(
		kit.Pointers(nodes.Items), kit.Pointers(offers.Items), shared, cluster.Spec.ClusterID, offeredNode)
	return place, nil
}

// Limits implements Placer.
func (n *Nodes) Limits(ctx context.Context, foreignCluster string) (Limits, error) {
	cluster, err := n.foreignCluster(ctx, foreignCluster)
	if err != nil {
		return Limits{}, err
	}
	if cluster == nil {
		// The last pods of a consumer without a ForeignCluster were admitted with its limits, which may not have
		// required limits of resources.
		policy := trust.Strictest()
		policy.Limits = ""
		return Limits{Policy: policy}, nil
	}
	return Limits{
		Policy: n.policy.PodLimits(cluster),
		Evict:  cluster.Spec.IncomingPolicy.RefusedPods == v1alpha1.RefusedPodsEvict,
	}, nil
}

// foreignCluster returns a ForeignCluster; nil if it does not exist, for example because it was deleted before
// the last pods of the consumer.
func (n *Nodes) foreignCluster(ctx context.Context, name string) (*v1alpha1.ForeignCluster, error) {
	return read(ctx, n.cluster, types.NamespacedName{Name: name}, &v1alpha1.ForeignCluster{})
}
