// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/subresource"
)

// minTokenLifetime is the shortest lifetime that the TokenRequest API accepts.
const minTokenLifetime = 10 * time.Minute

var invitationResource = federation.Resource("peeringtokens/invitation")

// Provider describes this cluster in an invitation.
type Provider struct {
	// ClusterName is the name of this cluster among its peers.
	ClusterName string
	// ClusterID is the UID of its namespace kube-system.
	ClusterID string
	// Server is the https URL of its Kubernetes API. Empty means that there are no
	// out-of-band invitations.
	Server string
	// CA is the PEM encoded bundle that the server's certificate is verified
	// with. Empty means the consumer's system bundle.
	CA []byte
	// OwnCA is the PEM encoded bundle that the certificate for the in-cluster name of the API
	// server is verified with.
	OwnCA []byte
}

// InvitationREST is the verb invitation: POST returns the invitation for a consumer's
// administrator. Its token belongs to a service account of only this invitation, and is not
// stored.
type InvitationREST struct {
	tokens   rest.Getter
	accounts corev1client.ServiceAccountInterface
	provider Provider
	clock    clock.PassiveClock
}

// NewInvitationREST returns the verb over the store of peering tokens and the service
// accounts of the invitation namespace.
func NewInvitationREST(
	tokens rest.Getter, accounts corev1client.ServiceAccountInterface, provider Provider,
) *InvitationREST {
	return &InvitationREST{tokens: tokens, accounts: accounts, provider: provider, clock: clock.RealClock{}}
}

// New returns an empty invitation.
func (r *InvitationREST) New() runtime.Object { return &federation.Invitation{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *InvitationREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the uid and
// resourceVersion of a POST, which are its preconditions.
func (r *InvitationREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool {
	return true
}

// Create returns the invitation. It can be requested again until it is used or expires; each
// response has a token of the same service account. A dry run creates no account, and returns
// no token.
func (r *InvitationREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	request, ok := obj.(*federation.Invitation)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an Invitation, got a %T", obj))
	}
	if err := subresource.CheckName(name, request); err != nil {
		return nil, err
	}
	if createValidation != nil {
		if err := createValidation(ctx, request.DeepCopy()); err != nil {
			return nil, err
		}
	}
	parent, err := r.tokens.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	token := parent.(*federation.PeeringToken)
	if err := subresource.CheckPreconditions(invitationResource, name, request, token); err != nil {
		return nil, err
	}
	expiry := naming.InvitationExpiry(token.CreationTimestamp.Time, token.Spec.ExpirationSeconds)
	if err := r.refuse(token, expiry); err != nil {
		return nil, err
	}
	invitation := &federation.Invitation{ObjectMeta: subresource.Metadata(token)}
	if dryrun.IsDryRun(options.DryRun) {
		return invitation, fill(invitation, r.provider, token, "", expiry)
	}
	if err := r.ensureAccount(ctx, token); err != nil {
		return nil, err
	}
	secret, expiry, err := r.requestToken(ctx, token, expiry)
	if err != nil {
		return nil, err
	}
	return invitation, fill(invitation, r.provider, token, secret, expiry)
}

// refuse returns an error if the token is no valid invitation.
func (r *InvitationREST) refuse(token *federation.PeeringToken, expiry time.Time) error {
	conflict := func(why string) error {
		return apierrors.NewConflict(invitationResource, token.Name, errors.New(why))
	}
	inBand := token.Spec.Mode == federation.PeeringInBand
	switch {
	case !inBand && r.provider.Server == "":
		return conflict("the address at which consumers reach the API server of this cluster is not configured; " +
			"set the value server of its chart")
	case token.DeletionTimestamp != nil:
		return conflict("it is being deleted; create another PeeringToken")
	case token.Status.Used:
		return conflict("a consumer has used it; create another PeeringToken")
	case !r.clock.Now().Before(expiry):
		return apierrors.NewResourceExpired(fmt.Sprintf("the invitation %q expired at %s; create another PeeringToken",
			token.Name, expiry.UTC().Format(time.RFC3339)))
	case inBand && token.Status.Gateway == nil:
		return apierrors.NewTooManyRequests("the gateway of this cluster is not published yet: this requires the value "+
			"network.enabled of its chart, and ranges of pods in ClusterInfo local", 1)
	}
	return nil
}

// ensureAccount ensures the service account of the invitation, which is deleted together
// with the token.
func (r *InvitationREST) ensureAccount(ctx context.Context, token *federation.PeeringToken) error {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Name:   naming.InvitationAccount(token.UID),
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(),
				Kind:       "PeeringToken",
				Name:       token.Name,
				UID:        token.UID,
			}},
		},
		AutomountServiceAccountToken: ptr.To(false),
	}
	if _, err := r.accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return apierrors.NewInternalError(fmt.Errorf("creating the service account of the invitation: %w", err))
	}
	return nil
}

// requestToken returns a token of the invitation's service account, and its expiry.
func (r *InvitationREST) requestToken(
	ctx context.Context, token *federation.PeeringToken, expiry time.Time,
) (string, time.Time, error) {
	// client-go logs bodies, and this answer has the token.
	ctx = klog.NewContext(ctx, klog.Logger{})
	lifetime := max(expiry.Sub(r.clock.Now()), minTokenLifetime)
	answer, err := r.accounts.CreateToken(ctx, naming.InvitationAccount(token.UID), &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, apierrors.NewInternalError(fmt.Errorf("requesting the token of the invitation: %w", err))
	}
	if ends := answer.Status.ExpirationTimestamp.Time; !ends.IsZero() && ends.Before(expiry) {
		expiry = ends
	}
	return answer.Status.Token, expiry, nil
}

var (
	_ rest.Storage                        = &InvitationREST{}
	_ rest.NamedCreater                   = &InvitationREST{}
	_ rest.SubresourceObjectMetaPreserver = &InvitationREST{}
)
