// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

const (
	// signingTime is the Retry-After while a certificate is being issued, which takes about as long.
	signingTime = time.Second
	// freshPart limits renewals, so that a peer cannot renew its certificate in a loop: no certificate is replaced in
	// the first 1/freshPart of its lifetime.
	freshPart = 4
)

var identityResource = federation.Resource("resourcerequests/identity")

// Identities is the part of the store of IdentityRequests that a renewal needs.
type Identities interface {
	rest.Getter
	rest.Updater
}

// IdentityREST serves the subresource identity, with which a consumer renews its identity: it POSTs an IdentityRequest
// with a certificate request for a new key. Only the current identity of a tenant namespace may do so, on a
// ResourceRequest in that namespace. A repeated request returns the current state of the IdentityRequest.
type IdentityREST struct {
	requests   rest.Getter
	identities Identities
	clock      clock.PassiveClock
}

// NewIdentityREST returns the subresource identity. requests is the store of ResourceRequests and identities of
// IdentityRequests.
func NewIdentityREST(requests rest.Getter, identities Identities) *IdentityREST {
	return &IdentityREST{requests: requests, identities: identities, clock: clock.RealClock{}}
}

// New returns an empty IdentityRequest.
func (r *IdentityREST) New() runtime.Object { return &federation.IdentityRequest{} }

// Destroy does nothing: the stores belong to their resources.
func (r *IdentityREST) Destroy() {}

// Create requests a certificate for a new key. It fails with Forbidden if the user does not hold the identity of the
// namespace, and with TooManyRequests while a requested certificate is being issued, or in the first 1/freshPart of the
// lifetime of the current certificate.
func (r *IdentityREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	request, ok := obj.(*federation.IdentityRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an IdentityRequest, got a %T", obj))
	}
	held, err := r.held(ctx, name, request)
	if err != nil {
		return nil, err
	}
	if _, err := r.requests.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, err
	}
	if createValidation != nil {
		if err := createValidation(ctx, request.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if string(held.Spec.Request) == string(request.Spec.Request) {
		return held, nil
	}
	if err := r.mayReplace(held); err != nil {
		return nil, err
	}
	updated, _, err := r.identities.Update(ctx, held.Name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			renewed := old.DeepCopyObject().(*federation.IdentityRequest)
			// The update fails if the IdentityRequest changed since the check.
			renewed.ResourceVersion = held.ResourceVersion
			renewed.Spec.Request = request.Spec.Request
			return renewed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: options.DryRun})
	return updated, err
}

// held returns the IdentityRequest of the user's current identity. A certificate names the identity as its user; a user
// with a ServiceAccount token names the identity in the certificate request. held fails with Forbidden if the identity
// does not belong to the namespace of the request.
func (r *IdentityREST) held(
	ctx context.Context, name string, request *federation.IdentityRequest,
) (*federation.IdentityRequest, error) {
	refuse := func() (*federation.IdentityRequest, error) {
		return nil, apierrors.NewForbidden(identityResource, name,
			errors.New("only the consumer that has an identity in this namespace may renew it, with that identity"))
	}
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return refuse()
	}
	peering := user.GetName()
	accountNamespace, account, notAccount := serviceaccount.SplitUsername(user.GetName())
	if notAccount == nil {
		peering = identity.RequestedName(request.Spec.Request)
	}
	obj, err := r.identities.Get(ctx, naming.InvitationAccount(types.UID(peering)), &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return refuse()
	}
	if err != nil {
		return nil, err
	}
	held := obj.(*federation.IdentityRequest)
	namespace := genericapirequest.NamespaceValue(ctx)
	if namespace == "" || held.Status.TenantNamespace != namespace || held.DeletionTimestamp != nil {
		return refuse()
	}
	if notAccount == nil && (accountNamespace != namespace || account != held.Status.ServiceAccountName) {
		return refuse()
	}
	return held, nil
}

// mayReplace returns TooManyRequests if the current certificate is being issued, or is in the first 1/freshPart of its
// lifetime.
func (r *IdentityREST) mayReplace(held *federation.IdentityRequest) error {
	certificate := identity.Certifies(held.Status.Certificate, held.Spec.Request)
	if certificate == nil {
		if identity.KnownByAccount(held.Status.Conditions, held.Generation) {
			return nil
		}
		issued := meta.FindStatusCondition(held.Status.Conditions, federation.ConditionIssued)
		if issued != nil && issued.Status == metav1.ConditionFalse && issued.ObservedGeneration == held.Generation {
			return nil
		}
		return apierrors.NewTooManyRequests("the previously requested certificate is being issued: repeat that request",
			int(signingTime.Seconds()))
	}
	fresh := certificate.NotAfter.Sub(certificate.NotBefore) / freshPart
	if left := certificate.NotBefore.Add(fresh).Sub(r.clock.Now()); left > 0 {
		// With a Retry-After, clients would retry without reporting the reason.
		return apierrors.NewTooManyRequests(fmt.Sprintf("the identity was renewed recently: it can be renewed again in %s",
			left.Round(time.Second)), 0)
	}
	return nil
}

var _ rest.NamedCreater = &IdentityREST{}
