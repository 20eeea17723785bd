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

// minTokenLifetime is the shortest token lifetime that the TokenRequest API accepts.
const minTokenLifetime = 10 * time.Minute

var invitationResource = federation.Resource("peeringtokens/invitation")

// Provider describes this cluster in an invitation.
type Provider struct {
	// ClusterName is the name of this cluster, and of the ForeignCluster that the consumer creates for it.
	ClusterName string
	// ClusterID is the UID of this cluster's namespace kube-system.
	ClusterID string
	// Server is the https URL of this cluster's Kubernetes API. If empty, only in-band invitations can be issued.
	Server string
	// CA is the PEM-encoded CA bundle for the certificate of Server. If it is empty, the consumer uses the CA bundle of
	// its system.
	CA []byte
	// OwnCA is the PEM-encoded CA bundle for kube-apiserver's certificate for the host name kubernetes.default.svc, which
	// in-band invitations contain.
	OwnCA []byte
}

// InvitationREST serves the subresource invitation: POST returns an invitation for a consumer's administrator. Each
// PeeringToken has a ServiceAccount of its own, whose token is in the invitation. The token is not stored.
type InvitationREST struct {
	tokens   rest.Getter
	accounts corev1client.ServiceAccountInterface
	provider Provider
	clock    clock.PassiveClock
}

// NewInvitationREST returns the subresource invitation. tokens is the store of PeeringTokens, accounts are the
// ServiceAccounts of the invitation namespace, and provider describes this cluster.
func NewInvitationREST(
	tokens rest.Getter, accounts corev1client.ServiceAccountInterface, provider Provider,
) *InvitationREST {
	return &InvitationREST{tokens: tokens, accounts: accounts, provider: provider, clock: clock.RealClock{}}
}

// New returns an empty Invitation.
func (r *InvitationREST) New() runtime.Object { return &federation.Invitation{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *InvitationREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate returns true: the API server must not drop uid and
// resourceVersion from the body of a POST, because they are preconditions.
func (r *InvitationREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool {
	return true
}

// Create returns the invitation of a PeeringToken. A client can request the invitation repeatedly until it is used or
// expires; each response has a new token of the same ServiceAccount. A dry run creates no ServiceAccount and returns no
// token.
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

// refuse returns nil if an invitation can be issued, and otherwise an API error with the reason: Conflict if the
// PeeringToken was used or is being deleted, or if it is out-of-band and Provider.Server is empty; ResourceExpired
// after expiry; TooManyRequests if it is in-band and its status.gateway is not set yet.
func (r *InvitationREST) refuse(token *federation.PeeringToken, expiry time.Time) error {
	conflict := func(why string) error {
		return apierrors.NewConflict(invitationResource, token.Name, errors.New(why))
	}
	inBand := token.Spec.Mode == federation.PeeringInBand
	switch {
	case !inBand && r.provider.Server == "":
		return conflict("the address at which consumers reach the API server of this cluster is not configured; " +
			"set the chart's value server")
	case token.DeletionTimestamp != nil:
		return conflict("the PeeringToken is being deleted; create another one")
	case token.Status.Used:
		return conflict("a consumer used the invitation already; create another PeeringToken")
	case !r.clock.Now().Before(expiry):
		return apierrors.NewResourceExpired(fmt.Sprintf("the invitation %q expired at %s; create another PeeringToken",
			token.Name, expiry.UTC().Format(time.RFC3339)))
	case inBand && token.Status.Gateway == nil:
		return apierrors.NewTooManyRequests("the gateway of this cluster is not published yet: this requires the value "+
			"network.enabled of the chart, and pod CIDRs in ClusterInfo local", 1)
	}
	return nil
}

// ensureAccount creates the ServiceAccount of the invitation if it does not exist. Its owner is the PeeringToken, with
// which it is garbage-collected.
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

// requestToken returns a new token of the invitation's ServiceAccount, and the time at which the invitation expires:
// expiry, or the expiration of the token if kube-apiserver chose an earlier one.
func (r *InvitationREST) requestToken(
	ctx context.Context, token *federation.PeeringToken, expiry time.Time,
) (string, time.Time, error) {
	// client-go logs response bodies, and this response contains the token.
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
