// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission admits invited consumers: it creates the ForeignCluster of each
// IdentityRequest, and accepts the request once the tenant namespace is ready.
package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "identity-request"

// Reasons of the condition Accepted of an IdentityRequest.
const (
	// ReasonAccepted means that the consumer has a ForeignCluster and a tenant namespace.
	ReasonAccepted = "Accepted"
	// ReasonOwnCluster means that the request is of this cluster itself. Peer with the invitation of another cluster.
	ReasonOwnCluster = "OwnCluster"
	// ReasonInvitationNotBound means that a ForeignCluster has the ID of the consumer already, but the PeeringToken
	// has no spec.consumerClusterID. Create a PeeringToken whose spec.consumerClusterID is the ID of the consumer.
	ReasonInvitationNotBound = "InvitationNotBound"
	// ReasonNameTaken means that other peers have the name of the consumer, and also that name with a part of the
	// consumer's ID. Rename the consumer.
	ReasonNameTaken = "NameTaken"
	// ReasonInvitationWithdrawn means that the PeeringToken of the request was deleted. Create another invitation.
	ReasonInvitationWithdrawn = "InvitationWithdrawn"
	// ReasonInvitationForAnotherCluster means that the invitation is bound to the id of another cluster. Create an
	// invitation for this consumer.
	ReasonInvitationForAnotherCluster = "InvitationForAnotherCluster"
)

// Reconciler creates a ForeignCluster for each invited consumer, and accepts or refuses its
// IdentityRequest.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Trust is the trust in consumers whose PeeringToken does not set spec.trust.
	Trust v1alpha1.PeeringTrust
	// Mode selects whether this cluster issues certificates or tokens to its consumers.
	Mode identity.Mode
}

// SetupWithManager adds the controller to a manager. It has one worker, so that two IdentityRequests of
// one consumer are not both admitted.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	ofLabel := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.requestsOf(ctx, object.GetLabels()[v1alpha1.LabelForeignCluster])
	})
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.IdentityRequest{}).
		Watches(&v1alpha1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, fc client.Object) []reconcile.Request {
				return r.requestsOf(ctx, fc.GetName())
			})).
		Watches(&corev1.Namespace{}, ofLabel).
		Watches(&rbacv1.RoleBinding{}, ofLabel).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// requestsOf returns the reconcile requests of the IdentityRequests that a ForeignCluster owns, and of
// those without an owner; none if the name of the ForeignCluster is empty.
func (r *Reconciler) requestsOf(ctx context.Context, foreignCluster string) []reconcile.Request {
	if foreignCluster == "" {
		return nil
	}
	var all v1alpha1.IdentityRequestList
	// Listing from a cache fails only before the cache is synced, which causes an event for each request anyway.
	_ = r.Client.List(ctx, &all)
	var requests []reconcile.Request
	for i := range all.Items {
		if owner := metav1.GetControllerOf(&all.Items[i]); owner == nil || owner.Name == foreignCluster {
			requests = append(requests, kit.Request("", all.Items[i].Name))
		}
	}
	return requests
}

// Reconcile admits or refuses the consumer of one IdentityRequest.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	request := &v1alpha1.IdentityRequest{}
	if err := r.Client.Get(ctx, key.NamespacedName, request); err != nil || request.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(request)
	if owner == nil {
		return kit.Result(0, r.adopt(ctx, request))
	}
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: owner.Name}, fc)
	switch {
	case err == nil && fc.UID == owner.UID:
		return kit.Result(0, r.accept(ctx, request, fc))
	case err == nil, apierrors.IsNotFound(err):
		return kit.Result(0, r.abandon(ctx, request, owner))
	default:
		return ctrl.Result{}, err
	}
}

// abandon deletes an IdentityRequest whose ForeignCluster was deleted. If only the cache lacks the
// ForeignCluster, it does nothing, because the ForeignCluster enqueues the IdentityRequest later.
func (r *Reconciler) abandon(
	ctx context.Context, request *v1alpha1.IdentityRequest, owner *metav1.OwnerReference,
) error {
	all, err := r.inventory(ctx)
	if err != nil {
		return fmt.Errorf("verifying that ForeignCluster %s was deleted: %w", owner.Name, err)
	}
	if slices.ContainsFunc(all.clusters, func(fc v1alpha1.ForeignCluster) bool { return fc.UID == owner.UID }) {
		return nil
	}
	return kit.Delete(ctx, r.Client, request)
}

func (r *Reconciler) refuse(ctx context.Context, request *v1alpha1.IdentityRequest, reason, message string) error {
	refused := request.DeepCopy()
	identity.SetCondition(refused, v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, message)
	_, err := kit.Commit(ctx, r.Client, request, refused)
	return err
}
