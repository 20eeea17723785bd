// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
)

const peeringTokenKind = "PeeringToken"

// peeringTokens writes down what became of invitations, and takes their
// service accounts away once they are of no more use.
type peeringTokens struct {
	clock clock.PassiveClock

	get func(name string) (*v1alpha1.PeeringToken, error)
	// now reads a token from the API server: an account may be known before
	// the token that it was made for is.
	now           func(ctx context.Context, name string) (*v1alpha1.PeeringToken, error)
	commit        func(ctx context.Context, old, wanted *v1alpha1.PeeringToken) (bool, error)
	remove        func(ctx context.Context, token *v1alpha1.PeeringToken) error
	identity      func(name string) (*v1alpha1.IdentityRequest, error)
	forget        func(ctx context.Context, request *v1alpha1.IdentityRequest) error
	requests      func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	accounts      func() ([]*corev1.ServiceAccount, error)
	removeAccount func(ctx context.Context, account *corev1.ServiceAccount) error
}

// NewPeeringTokens makes the controller of invitations. accounts see the
// service accounts in the invitation namespace.
func NewPeeringTokens(config *Config, accounts kubeinformers.SharedInformerFactory) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	client := config.Federation.FederationV1alpha1().PeeringTokens()
	lister := accounts.Core().V1().ServiceAccounts().Lister()
	r := &peeringTokens{
		clock: config.Clock,
		get:   informers.PeeringTokens().Lister().Get,
		now: func(ctx context.Context, name string) (*v1alpha1.PeeringToken, error) {
			return client.Get(ctx, name, getOptions)
		},
		commit: func(ctx context.Context, old, wanted *v1alpha1.PeeringToken) (bool, error) {
			return commit.Commit(ctx, client, old, wanted)
		},
		remove: func(ctx context.Context, token *v1alpha1.PeeringToken) error {
			return client.Delete(ctx, token.Name, exactly(token))
		},
		identity: informers.IdentityRequests().Lister().Get,
		forget: func(ctx context.Context, request *v1alpha1.IdentityRequest) error {
			return config.Federation.FederationV1alpha1().IdentityRequests().Delete(ctx, request.Name, exactly(request))
		},
		requests: func(namespace string) ([]*v1alpha1.ResourceRequest, error) {
			return informers.ResourceRequests().Lister().ResourceRequests(namespace).List(labels.Everything())
		},
		accounts: func() ([]*corev1.ServiceAccount, error) { return lister.List(labels.Everything()) },
		removeAccount: func(ctx context.Context, account *corev1.ServiceAccount) error {
			return config.Kube.CoreV1().ServiceAccounts(account.Namespace).Delete(ctx, account.Name, exactly(account))
		},
	}
	controller := queue.New("peeringtoken", 1, r.reconcile)
	tokens := informers.PeeringTokens().Lister()
	invited := func(object any) []cache.ObjectName {
		all, err := tokens.List(labels.Everything())
		if err != nil {
			return nil
		}
		var keys []cache.ObjectName
		for _, token := range all {
			if request, ok := object.(*v1alpha1.IdentityRequest); !ok || request.Name == naming.InvitationAccount(token.UID) {
				keys = append(keys, cache.ObjectName{Name: token.Name})
			}
		}
		return keys
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		keys     func(any) []cache.ObjectName
	}{
		{informers.PeeringTokens().Informer(), queue.ObjectKeys},
		{informers.IdentityRequests().Informer(), invited},
		{informers.ResourceRequests().Informer(), invited},
		{accounts.Core().V1().ServiceAccounts().Informer(), tokenOfAccount},
	} {
		if _, err := watched.informer.AddEventHandler(controller.Handle(watched.keys)); err != nil {
			return nil, fmt.Errorf("watch for the peering tokens: %w", err)
		}
	}
	return controller, nil
}

// tokenOfAccount leads from the service account of an invitation to the
// PeeringToken that it was made for.
func tokenOfAccount(object any) []cache.ObjectName {
	account, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	for _, owner := range account.GetOwnerReferences() {
		if owner.Kind == peeringTokenKind {
			return []cache.ObjectName{{Name: owner.Name}}
		}
	}
	return nil
}

func (r *peeringTokens) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	token, err := r.get(key.Name)
	if apierrors.IsNotFound(err) {
		if _, err := r.now(ctx, key.Name); !apierrors.IsNotFound(err) {
			return 0, err
		}
		return 0, r.removeAccounts(ctx, key.Name, "")
	}
	if err != nil {
		return 0, err
	}
	// An account of an earlier token of that name must not be of use any more.
	if err := r.removeOthers(ctx, token); err != nil {
		return 0, err
	}
	request, err := r.identity(naming.InvitationAccount(token.UID))
	if apierrors.IsNotFound(err) {
		request = nil
	} else if err != nil {
		return 0, err
	}
	left := naming.InvitationExpiry(token.CreationTimestamp.Time, token.Spec.ExpirationSeconds).Sub(r.clock.Now())
	if left <= 0 {
		return 0, r.expired(ctx, token, request)
	}
	if request == nil {
		if !token.Status.Used {
			return left, nil
		}
		// Its identity was revoked, or another one took its place.
		return left, r.removeAccounts(ctx, token.Name, naming.InvitationAccount(token.UID))
	}
	after, err := r.used(ctx, token, request)
	if after > 0 {
		left = min(left, after)
	}
	return left, err
}

// expired removes an invitation with everything that did not become a peering.
func (r *peeringTokens) expired(ctx context.Context, token *v1alpha1.PeeringToken, request *v1alpha1.IdentityRequest) error {
	if err := r.removeAccounts(ctx, token.Name, naming.InvitationAccount(token.UID)); err != nil {
		return err
	}
	if request != nil && metav1.GetControllerOf(request) == nil {
		if err := ignoreNotFound(r.forget(ctx, request)); err != nil {
			return fmt.Errorf("remove the identity request of an expired invitation: %w", err)
		}
	}
	return ignoreNotFound(r.remove(ctx, token))
}

// used writes down who the invitation was used by, and takes its account away
// when the identity that it paid for has been used. It is to be called again
// after the time that it returns, if any.
func (r *peeringTokens) used(ctx context.Context, token *v1alpha1.PeeringToken, request *v1alpha1.IdentityRequest) (time.Duration, error) {
	if meta.IsStatusConditionTrue(request.Status.Conditions, v1alpha1.ConditionAccepted) {
		wanted := token.DeepCopy()
		wanted.Status.Used = true
		wanted.Status.UsedBy = request.Spec.ClusterID
		if changed, err := r.commit(ctx, token, wanted); err != nil || changed {
			return 0, err
		}
	}
	given, ok := givenAt(request)
	if !ok {
		return 0, nil
	}
	requests, err := r.requests(request.Status.TenantNamespace)
	if err != nil {
		return 0, err
	}
	// What is older was asked for by the identity that the consumer had before:
	// the account stays, so that it can fetch this one.
	if !slices.ContainsFunc(requests, func(made *v1alpha1.ResourceRequest) bool { return !made.CreationTimestamp.Time.Before(given) }) {
		return 0, nil
	}
	if wait := given.Add(fetchTime).Sub(r.clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, r.removeAccounts(ctx, token.Name, request.Name)
}

// fetchTime is how long a consumer has at least to fetch the identity that is
// there for it. What it asked for by an earlier one may bear the same second.
const fetchTime = 10 * time.Second

// givenAt is when the identity was there for the consumer to fetch; false says
// that it is not there yet.
func givenAt(request *v1alpha1.IdentityRequest) (time.Time, bool) {
	conditions := request.Status.Conditions
	given := meta.FindStatusCondition(conditions, v1alpha1.ConditionIssued)
	if identity.KnownByAccount(conditions, request.Generation) {
		given = meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	}
	if given == nil || given.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return given.LastTransitionTime.Time, true
}

// removeOthers deletes the accounts of tokens that had the name before.
func (r *peeringTokens) removeOthers(ctx context.Context, token *v1alpha1.PeeringToken) error {
	accounts, err := r.accounts()
	if err != nil {
		return err
	}
	ofAnother := func(account *corev1.ServiceAccount) bool {
		return slices.ContainsFunc(account.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.Kind == peeringTokenKind && owner.Name == token.Name && owner.UID != token.UID
		})
	}
	if !slices.ContainsFunc(accounts, ofAnother) {
		return nil
	}
	if token, err = r.now(ctx, token.Name); err != nil {
		return ignoreNotFound(err)
	}
	return r.removeMatching(ctx, ofAnother)
}

// removeAccounts deletes the accounts that were made for a token: all, or the
// one of that name.
func (r *peeringTokens) removeAccounts(ctx context.Context, token, name string) error {
	return r.removeMatching(ctx, func(account *corev1.ServiceAccount) bool {
		keys := tokenOfAccount(account)
		return len(keys) == 1 && keys[0].Name == token && (name == "" || account.Name == name)
	})
}

func (r *peeringTokens) removeMatching(ctx context.Context, matches func(*corev1.ServiceAccount) bool) error {
	accounts, err := r.accounts()
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if account.DeletionTimestamp != nil || !matches(account) {
			continue
		}
		if err := ignoreNotFound(r.removeAccount(ctx, account)); err != nil {
			return fmt.Errorf("remove the service account of an invitation: %w", err)
		}
	}
	return nil
}
