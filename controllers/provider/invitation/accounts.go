// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package invitation

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// ownerKind is the kind in the owner reference of an invitation's account.
const ownerKind = "PeeringToken"

// deleteOthers deletes the ServiceAccounts that were created for earlier PeeringTokens with the same name.
func (r *Reconciler) deleteOthers(ctx context.Context, token *v1alpha1.PeeringToken) error {
	live := token
	ofAnother := func(account *corev1.ServiceAccount) bool {
		return slices.ContainsFunc(account.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.Kind == ownerKind && owner.Name == live.Name && owner.UID != live.UID
		})
	}
	accounts, err := r.matching(ctx, ofAnother)
	if err != nil || len(accounts) == 0 {
		return err
	}
	live = &v1alpha1.PeeringToken{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(token), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.deleteMatching(ctx, ofAnother)
}

// deleteAccounts deletes the ServiceAccount with the given name if it was created for the PeeringToken named token.
// If name is empty, it deletes all ServiceAccounts of that PeeringToken.
func (r *Reconciler) deleteAccounts(ctx context.Context, token, name string) error {
	return r.deleteMatching(ctx, func(account *corev1.ServiceAccount) bool {
		requests := tokenOfAccount(account)
		return len(requests) == 1 && requests[0].Name == token && (name == "" || account.Name == name)
	})
}

// deleteMatching deletes the ServiceAccounts of invitations that matches selects. It also deletes the
// IdentityRequest that was created with each of them, unless a peering uses that. Nothing else deletes a
// refused IdentityRequest.
func (r *Reconciler) deleteMatching(ctx context.Context, matches func(*corev1.ServiceAccount) bool) error {
	accounts, err := r.matching(ctx, matches)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if account.DeletionTimestamp != nil {
			continue
		}
		if err := r.deleteRequest(ctx, account.Name); err != nil {
			return err
		}
		if err := kit.Delete(ctx, r.Client, account); err != nil {
			return fmt.Errorf("deleting the service account of an invitation: %w", err)
		}
	}
	return nil
}

// deleteRequest deletes an IdentityRequest that no peering uses. It reads the API server, because a peering may
// have begun to use the IdentityRequest after it was cached.
func (r *Reconciler) deleteRequest(ctx context.Context, name string) error {
	request := &v1alpha1.IdentityRequest{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, request)
	if err == nil && isUnowned(request) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, request)
	}
	if err == nil && isUnowned(request) {
		err = kit.Delete(ctx, r.Client, request)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the identity request of an invitation: %w", err)
	}
	return nil
}

func (r *Reconciler) matching(
	ctx context.Context, matches func(*corev1.ServiceAccount) bool,
) ([]*corev1.ServiceAccount, error) {
	var all corev1.ServiceAccountList
	if err := r.accounts.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing the service accounts of invitations: %w", err)
	}
	var matching []*corev1.ServiceAccount
	for i := range all.Items {
		if matches(&all.Items[i]) {
			matching = append(matching, &all.Items[i])
		}
	}
	return matching, nil
}
