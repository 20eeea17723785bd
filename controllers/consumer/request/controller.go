// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package request creates the resource requests of a consumer, answers the offers of its
// providers, and creates the virtual nodes of accepted offers.
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

// workers is how many providers are negotiated with at a time.
const workers = 2

// Reconciler keeps the resource request to the provider of each ForeignCluster with an
// outgoing peering, answers its offers, and creates and deletes virtual nodes.
type Reconciler struct {
	// Client reads the cache of the manager.
	Client client.Client
	// ClusterName is the name of this cluster.
	ClusterName string
	// AutoAccept accepts offers without an administrator's decision.
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

// Reconcile negotiates with one provider.
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
	// Without an identity no request reaches the provider.
	if fc.Status.RemoteTenantNamespace == "" || fc.Status.PeerNamespace == "" {
		return nil
	}
	if err := r.request(ctx, p); err != nil {
		return err
	}
	return r.acceptOffers(ctx, p)
}

// peering is the state of an outgoing peering that a reconcile reads.
type peering struct {
	fc       *v1alpha1.ForeignCluster
	nodes    []*v1alpha1.VirtualNode
	offers   []*v1alpha1.ResourceOffer
	requests []*v1alpha1.ResourceRequest
}

// request writes the request that the ForeignCluster specifies.
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

// leave deletes the virtual nodes, and withdraws the request once they are deleted.
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
