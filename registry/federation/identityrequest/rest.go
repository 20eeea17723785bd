// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identityrequest

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

var identityRequests = federation.Resource("identityrequests")

// REST serves IdentityRequests. Only the ServiceAccount of an invitation may create one. The object gets the name of
// this ServiceAccount, which may read no other IdentityRequest.
type REST struct {
	*store.REST
	invitationNamespace string
}

// New returns a constructor for the storage of IdentityRequests and of their status. invitationNamespace has the
// ServiceAccounts of invitations.
func New(
	invitationNamespace string,
) func(*runtime.Scheme, generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
	return func(scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*REST, *store.StatusREST, error) {
		storage, status, err := Kind.Storage(scheme, getter)
		return &REST{REST: storage, invitationNamespace: invitationNamespace}, status, err
	}
}

// Create stores an IdentityRequest under the name of the user's ServiceAccount, without finalizers. It fails with
// Forbidden if the user is not the ServiceAccount of an invitation. A repeated request with the same spec returns the
// stored object, so that a client can retry after a lost response; one with another spec fails with Conflict.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	request, ok := obj.(*federation.IdentityRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an IdentityRequest, got a %T", obj))
	}
	account, bearer := r.bearer(ctx)
	if !bearer {
		return nil, apierrors.NewForbidden(identityRequests, request.Name,
			errors.New("only the bearer of an invitation may request an identity; POST to the subresource invitation of a "+
				"PeeringToken returns an invitation"))
	}
	request.Name, request.GenerateName, request.Finalizers = account, "", nil
	created, err := r.REST.Create(ctx, request, createValidation, options)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	stored, err := r.REST.Get(ctx, account, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !apiequality.Semantic.DeepEqual(stored.(*federation.IdentityRequest).Spec, request.Spec) {
		return nil, apierrors.NewConflict(identityRequests, account,
			errors.New("this invitation was used for another request; use another invitation of the provider"))
	}
	return stored, nil
}

// Get returns an IdentityRequest. It fails with Forbidden if the user is the ServiceAccount of another invitation.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	if account, bearer := r.bearer(ctx); bearer && account != name {
		return nil, apierrors.NewForbidden(identityRequests, name,
			errors.New("the bearer of an invitation may read only its own request"))
	}
	return r.REST.Get(ctx, name, options)
}

// Update updates an existing IdentityRequest. Server-side apply cannot create one, because only Create sets the name.
func (r *REST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.REST.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// bearer returns the name of the user's ServiceAccount, and whether it is the ServiceAccount of an invitation.
func (r *REST) bearer(ctx context.Context) (string, bool) {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return "", false
	}
	namespace, account, err := serviceaccount.SplitUsername(user.GetName())
	if err != nil || namespace != r.invitationNamespace {
		return "", false
	}
	_, invitation := naming.InvitationOfAccount(account)
	return account, invitation
}

var _ rest.StandardStorage = &REST{}
