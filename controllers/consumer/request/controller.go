// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package request negotiates resources on the consumer: it creates the resource request to each
// provider, accepts or refuses the provider's offers, and creates virtual nodes for an accepted offer.
package request

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "resource-request"

// workers is the number of providers whose peerings are reconciled in parallel.
const workers = 2

// Reconciler ensures the resource request of each ForeignCluster with an outgoing peering, answers the
// provider's offers, and creates and deletes virtual nodes.
type Reconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// ClusterName is the name of this cluster.
	ClusterName string
	// AutoAccept accepts offers for which spec.outgoingPolicy.decision is empty. If it is false, they
	// wait for a decision of the administrator.
	AutoAccept bool
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	peer := handler.EnqueueRequestsFromMapFunc(kit.OfPeerNamespace)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ResourceRequest{}, peer).
		Watches(&v1alpha1.ResourceOffer{}, peer).
		Watches(&v1alpha1.VirtualNode{}, peer, builder.WithPredicates(kit.Changed(kit.VirtualNodeChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// Reconcile negotiates with the provider of one ForeignCluster.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, request.NamespacedName, fc)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.Result(0, r.reconcile(ctx, fc))
}

func (r *Reconciler) reconcile(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
	inNamespace := client.InNamespace(naming.PeerNamespace(fc.Name))
	var nodes v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &nodes, inNamespace); err != nil {
		return err
	}
	var offers v1alpha1.ResourceOfferList
	if err := r.Client.List(ctx, &offers, inNamespace); err != nil {
		return err
	}
	var requests v1alpha1.ResourceRequestList
	if err := r.Client.List(ctx, &requests, inNamespace); err != nil {
		return err
	}
	p := &peering{
		fc: fc, nodes: kit.Pointers(nodes.Items), offers: kit.Pointers(offers.Items), requests: kit.Pointers(requests.Items),
	}
	if placement.Ending(fc) {
		return r.leave(ctx, p)
	}
	// Without an identity at the provider, the resource request cannot be replicated to it.
	if fc.Status.RemoteTenantNamespace == "" || fc.Status.PeerNamespace == "" {
		return nil
	}
	if err := r.request(ctx, p); err != nil {
		return err
	}
	return r.acceptOffers(ctx, p)
}

// peering has the objects of one outgoing peering, as read by one reconcile.
type peering struct {
	fc       *v1alpha1.ForeignCluster
	nodes    []*v1alpha1.VirtualNode
	offers   []*v1alpha1.ResourceOffer
	requests []*v1alpha1.ResourceRequest
}

// request creates or updates the resource request with the resources in the spec of the ForeignCluster.
func (r *Reconciler) request(ctx context.Context, p *peering) error {
	namespace := naming.PeerNamespace(p.fc.Name)
	wanted := v1alpha1.ResourceRequestSpec{
		Resources: p.fc.Spec.Resources, APIVersions: compatibility.APIVersions(), Features: compatibility.Features(),
	}
	index := slices.IndexFunc(p.requests, func(request *v1alpha1.ResourceRequest) bool {
		return request.Name == r.ClusterName
	})
	if index < 0 {
		created := &v1alpha1.ResourceRequest{ObjectMeta: kit.Managed(namespace, r.ClusterName), Spec: wanted}
		if err := r.Client.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("requesting resources in namespace %s: %w", namespace, err)
		}
		return nil
	}
	changed := p.requests[index].DeepCopy()
	changed.Spec = wanted
	if _, err := kit.Commit(ctx, r.Client, p.requests[index], changed); err != nil {
		return fmt.Errorf("changing the resource request in namespace %s: %w", namespace, err)
	}
	return nil
}

// leave deletes the virtual nodes of a peering that ends, and withdraws the resource request once they
// are deleted.
func (r *Reconciler) leave(ctx context.Context, p *peering) error {
	if len(p.nodes) > 0 {
		return r.deleteNodes(ctx, p.nodes)
	}
	for _, offer := range p.offers {
		if offer.Spec.Withdrawn {
			if err := r.answer(ctx, offer, v1alpha1.NegotiationWithdrawn, nodesRemoved); err != nil {
				return err
			}
		}
	}
	for _, request := range p.requests {
		if request.DeletionTimestamp != nil {
			continue
		}
		withdrawn := request.DeepCopy()
		withdrawn.Spec.Withdrawn = true
		if _, err := kit.Commit(ctx, r.Client, request, withdrawn); err != nil {
			return fmt.Errorf("withdrawing resource request %s: %w", client.ObjectKeyFromObject(request), err)
		}
	}
	return nil
}
