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
	// signingTime is roughly the time from a request until its certificate is issued.
	signingTime = time.Second
	// freshPart limits renewals: a certificate is not replaced in the first 1/freshPart of its
	// lifetime, so that a peer cannot renew it in a loop.
	freshPart = 4
)

var identityResource = federation.Resource("resourcerequests/identity")

// Identities is the part of the store of identity requests that a renewal uses.
type Identities interface {
	rest.Getter
	rest.Updater
}

// IdentityREST renews the identity of the consumer of a resource request: a POST of an
// IdentityRequest with a signing request for another key. Only that identity may do so, and
// only in its tenant namespace. Repeating a request returns its current state.
type IdentityREST struct {
	requests   rest.Getter
	identities Identities
	clock      clock.PassiveClock
}

// NewIdentityREST returns the subresource over the stores of resource requests and of
// identity requests.
func NewIdentityREST(requests rest.Getter, identities Identities) *IdentityREST {
	return &IdentityREST{requests: requests, identities: identities, clock: clock.RealClock{}}
}

// New returns an empty identity request.
func (r *IdentityREST) New() runtime.Object { return &federation.IdentityRequest{} }

// Destroy does nothing: the stores belong to their resources.
func (r *IdentityREST) Destroy() {}

// Create requests a certificate for another key.
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
			// The decision holds for this state only.
			renewed.ResourceVersion = held.ResourceVersion
			renewed.Spec.Request = request.Spec.Request
			return renewed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: options.DryRun})
	return updated, err
}

// held returns the identity that the user of a request has. It fails with Forbidden if that identity does
// not belong to this tenant namespace. A certificate names the identity; for a service account the
// request names it.
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

// mayReplace returns 429 for a peer that renews its certificate in a loop.
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
		return apierrors.NewTooManyRequests("the certificate for the last request is being issued: repeat that request",
			int(signingTime.Seconds()))
	}
	fresh := certificate.NotAfter.Sub(certificate.NotBefore) / freshPart
	if left := certificate.NotBefore.Add(fresh).Sub(r.clock.Now()); left > 0 {
		// With a Retry-After clients would retry without reporting the reason.
		return apierrors.NewTooManyRequests(fmt.Sprintf("the identity was renewed recently: it can be renewed again in %s",
			left.Round(time.Second)), 0)
	}
	return nil
}

var _ rest.NamedCreater = &IdentityREST{}
