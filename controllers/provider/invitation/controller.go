// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package invitation reports which clusters used the invitations of this cluster, and deletes the
// ServiceAccounts of invitations that were used or expired.
package invitation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "peering-token"

// Reconciler writes the status of PeeringTokens, and deletes them once they expired.
type Reconciler struct {
	// Client reads the cache of the manager. Live reads the API server, because the cache may contain a
	// ServiceAccount before the PeeringToken for which it was created.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Namespace is the namespace of the ServiceAccounts of invitations.
	Namespace string

	// accounts reads a cache of the ServiceAccounts in Namespace.
	accounts client.Reader
}

// SetupWithManager adds the controller to a manager, with a cache of the ServiceAccounts in Namespace.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	accounts, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}: {Namespaces: map[string]cache.Config{r.Namespace: {}}},
	})
	if err != nil {
		return err
	}
	r.accounts = accounts
	ofAccount := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, account client.Object) []reconcile.Request {
		return tokenOfAccount(account)
	})
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.PeeringToken{}).
		Watches(&v1alpha1.IdentityRequest{}, handler.EnqueueRequestsFromMapFunc(r.tokensOf)).
		Watches(&v1alpha1.ResourceRequest{}, handler.EnqueueRequestsFromMapFunc(r.tokensOf)).
		WatchesRawSource(source.Kind[client.Object](accounts, &corev1.ServiceAccount{}, ofAccount)).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// tokensOf maps an IdentityRequest to the PeeringToken with which it was created, and a ResourceRequest to
// all PeeringTokens.
func (r *Reconciler) tokensOf(ctx context.Context, object client.Object) []reconcile.Request {
	var tokens v1alpha1.PeeringTokenList
	// Listing from a cache fails only before the cache is synced, which causes an event for each token anyway.
	_ = r.Client.List(ctx, &tokens)
	_, isIdentity := object.(*v1alpha1.IdentityRequest)
	var requests []reconcile.Request
	for i := range tokens.Items {
		if token := &tokens.Items[i]; !isIdentity || object.GetName() == naming.InvitationAccount(token.UID) {
			requests = append(requests, kit.Request("", token.Name))
		}
	}
	return requests
}

// tokenOfAccount maps the ServiceAccount of an invitation to its PeeringToken.
func tokenOfAccount(account client.Object) []reconcile.Request {
	for _, owner := range account.GetOwnerReferences() {
		if owner.Kind == ownerKind {
			return []reconcile.Request{kit.Request("", owner.Name)}
		}
	}
	return nil
}

// Reconcile writes to the status of a PeeringToken whether the invitation was used. It deletes the ServiceAccount of
// the invitation once the invitation was used, has expired or was deleted.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	token := &v1alpha1.PeeringToken{}
	err := r.Client.Get(ctx, key.NamespacedName, token)
	if apierrors.IsNotFound(err) {
		if err := r.Live.Get(ctx, key.NamespacedName, token); !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		return kit.Result(0, r.deleteAccounts(ctx, key.Name, ""))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.Result(r.reconcile(ctx, token))
}

func (r *Reconciler) reconcile(ctx context.Context, token *v1alpha1.PeeringToken) (time.Duration, error) {
	// A deleted PeeringToken with the same name must not be usable.
	if err := r.deleteOthers(ctx, token); err != nil {
		return 0, err
	}
	account := naming.InvitationAccount(token.UID)
	request := &v1alpha1.IdentityRequest{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: account}, request)
	if apierrors.IsNotFound(err) {
		request = nil
	} else if err != nil {
		return 0, err
	}
	left := naming.InvitationExpiry(token.CreationTimestamp.Time, token.Spec.ExpirationSeconds).Sub(r.Clock.Now())
	switch {
	case left <= 0:
		return 0, r.expire(ctx, token)
	case request == nil && !token.Status.Used:
		return left, nil
	case request == nil:
		// The identity was revoked, or replaced by another one.
		return left, r.deleteAccounts(ctx, token.Name, account)
	}
	after, err := r.use(ctx, token, request)
	if after > 0 {
		left = min(left, after)
	}
	return left, err
}

// expire deletes an expired PeeringToken and its ServiceAccount. It also deletes the IdentityRequest that was
// created with the PeeringToken, unless a peering uses that.
func (r *Reconciler) expire(ctx context.Context, token *v1alpha1.PeeringToken) error {
	account := naming.InvitationAccount(token.UID)
	if err := r.deleteAccounts(ctx, token.Name, account); err != nil {
		return err
	}
	if err := r.deleteRequest(ctx, account); err != nil {
		return err
	}
	return kit.Delete(ctx, r.Client, token)
}
