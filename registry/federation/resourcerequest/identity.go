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
	// signingTime is about how long it takes until a certificate is made.
	signingTime = time.Second
	// freshPart is the part of a certificate's life in which it is not
	// replaced: a peer that asks in a loop is made to wait.
	freshPart = 4
)

var identityResource = federation.Resource("resourcerequests/identity")

// Identities is what a renewal needs of the store of identity requests.
type Identities interface {
	rest.Getter
	rest.Updater
}

// IdentityREST renews the identity of the consumer that a resource request is
// of: a POST of an IdentityRequest with a signing request for another key. Only
// the identity itself may do that, and it has the right in its tenant namespace
// alone. The same request again is answered with how it stands.
type IdentityREST struct {
	requests   rest.Getter
	identities Identities
	clock      clock.PassiveClock
}

// NewIdentityREST makes the subresource over the stores of resource requests
// and of identity requests.
func NewIdentityREST(requests rest.Getter, identities Identities) *IdentityREST {
	return &IdentityREST{requests: requests, identities: identities, clock: clock.RealClock{}}
}

// New makes an empty identity request.
func (r *IdentityREST) New() runtime.Object { return &federation.IdentityRequest{} }

// Destroy does nothing: the stores belong to their resources.
func (r *IdentityREST) Destroy() {}

// Create asks for a certificate for another key.
func (r *IdentityREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	asked, ok := obj.(*federation.IdentityRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("an IdentityRequest is expected here, not a %T", obj))
	}
	held, err := r.held(ctx, name, asked)
	if err != nil {
		return nil, err
	}
	if _, err := r.requests.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, err
	}
	if createValidation != nil {
		if err := createValidation(ctx, asked.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if string(held.Spec.Request) == string(asked.Spec.Request) {
		return held, nil
	}
	if err := r.mayReplace(held); err != nil {
		return nil, err
	}
	updated, _, err := r.identities.Update(ctx, held.Name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			wanted := old.DeepCopyObject().(*federation.IdentityRequest)
			// What was decided above holds for this state only.
			wanted.ResourceVersion = held.ResourceVersion
			wanted.Spec.Request = asked.Spec.Request
			return wanted, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun})
	return updated, err
}

// held is the identity of the one who asks, if it is of this tenant namespace.
// A certificate says which one that is; where it is an account, the request
// does.
func (r *IdentityREST) held(
	ctx context.Context, name string, asked *federation.IdentityRequest,
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
	home, account, notAccount := serviceaccount.SplitUsername(user.GetName())
	if notAccount == nil {
		peering = identity.RequestedName(asked.Spec.Request)
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
	if notAccount == nil && (home != namespace || account != held.Status.ServiceAccountName) {
		return refuse()
	}
	return held, nil
}

// mayReplace keeps a peer from having certificates made in a loop.
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
		return apierrors.NewTooManyRequests("the certificate for the last request is being made: send that request again",
			int(signingTime.Seconds()))
	}
	fresh := certificate.NotAfter.Sub(certificate.NotBefore) / freshPart
	if left := certificate.NotBefore.Add(fresh).Sub(r.clock.Now()); left > 0 {
		// Clients wait by themselves when they are told for how long.
		return apierrors.NewTooManyRequests(fmt.Sprintf("the identity was renewed a moment ago: it can be replaced in %s",
			left.Round(time.Second)), 0)
	}
	return nil
}

var _ rest.NamedCreater = &IdentityREST{}
