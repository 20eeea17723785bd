// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// obtain requests an identity from the provider with an invitation, stores it, and opens the
// connection with it. secret is the Secret with an earlier, unusable or incomplete identity; nil if
// there is none.
func (s *identityStep) obtain(
	ctx context.Context, p *foreigncluster.Pass, secret *corev1.Secret,
) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	invited, out := s.invitation(ctx, p, secret)
	if invited == nil {
		return out, nil
	}
	if _, err := s.ControlProxy.route(fc); err != nil {
		return unroutable(p, err), nil
	}
	secret, err := s.ensureKey(ctx, fc, secret, invited)
	if err != nil {
		return foreigncluster.Continue, err
	}
	answer, err := s.requestIdentity(ctx, fc, invited.token, &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: invited.account},
		Spec: v1alpha1.IdentityRequestSpec{
			ClusterID:   s.ClusterID,
			ClusterName: s.ClusterName,
			Request:     secret.Data[remote.KeyRequest],
		},
	})
	if err != nil {
		return refused(p, err)
	}
	if out, stop := unanswered(p, answer); stop {
		return out, nil
	}
	key, request := secret.Data[remote.KeyPrivateKey], secret.Data[remote.KeyRequest]
	if err := s.validate(answer, invited.uid, key, request); err != nil {
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonIdentityInvalid,
			"The identity that the provider issued is invalid: %s.", remote.Text(err.Error())), nil
	}
	switch fc.Spec.ClusterID {
	case "":
		// Trust on first use: from now on, an answer with another cluster ID is rejected.
		fc.Spec.ClusterID = answer.Status.ClusterID
		return foreigncluster.Wait, nil
	case answer.Status.ClusterID:
	default:
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonClusterIDMismatch,
			"The cluster at %s has ID %s instead of %s: check spec.server, or request a new invitation.",
			fc.Spec.Server, answer.Status.ClusterID, fc.Spec.ClusterID), nil
	}
	return s.store(ctx, p, secret, invited, answer)
}

// store writes the identity in the provider's answer to the Secret, and opens the connection with it.
// If the provider issued a ServiceAccount, it requests the first token with the invitation.
func (s *identityStep) store(
	ctx context.Context, p *foreigncluster.Pass, secret *corev1.Secret, invited *invitation,
	answer *v1alpha1.IdentityRequest,
) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	identity, err := s.ControlProxy.route(fc)
	if err != nil {
		return foreigncluster.Continue, err
	}
	identity.PrivateKey, identity.Namespace = secret.Data[remote.KeyPrivateKey], answer.Status.TenantNamespace
	if account := issuedAccount(answer, secret.Data[remote.KeyRequest]); account != "" {
		identity.Account = account
		with, err := s.ControlProxy.invitedIdentity(fc, invited.token)
		if err != nil {
			return foreigncluster.Continue, err
		}
		if identity.Token, err = s.requestToken(ctx, with, identity.Namespace, account); err != nil {
			return refused(p, err)
		}
	} else {
		identity.Certificate = answer.Status.Certificate
	}
	secret = withIdentity(secret, identity)
	if err := s.Client.Update(ctx, secret); err != nil {
		return foreigncluster.Continue, fmt.Errorf("storing the identity at the provider: %w", err)
	}
	if identity, err = remote.FromSecret(secret); err != nil {
		return foreigncluster.Continue, err
	}
	return s.use(ctx, p, secret, identity)
}

// invitation returns the invitation that spec.invitationSecretName names. If the invitation is
// missing, invalid or expired, it sets the conditions, and returns nil and the outcome of the step.
// identity is the Secret with an earlier identity, or nil.
func (s *identityStep) invitation(
	ctx context.Context, p *foreigncluster.Pass, identity *corev1.Secret,
) (*invitation, foreigncluster.Outcome) {
	fc := p.ForeignCluster
	missing, expired := foreigncluster.ReasonInvitationMissing, ""
	if identity != nil && len(identity.Data[remote.KeyCertificate])+len(identity.Data[remote.KeyToken]) > 0 {
		missing, expired = foreigncluster.ReasonIdentityExpired, "The identity at the provider expired. "
	}
	if fc.Spec.InvitationSecretName == "" {
		return nil, deny(p, v1alpha1.PeeringError, missing,
			"%sspec.invitationSecretName names no invitation: request one from the provider's administrator, "+
				"and POST it to the subresource peer of this ForeignCluster.", expired)
	}
	secret, err := s.invitationSecret(ctx, fc)
	if err != nil {
		return nil, deny(p, v1alpha1.PeeringError, missing,
			"%sSecret %s with the invitation was not found in namespace %s, or is not of type %s: request "+
				"an invitation from the provider's administrator, and POST it to the subresource peer of this ForeignCluster.",
			expired, fc.Spec.InvitationSecretName, s.InvitationNamespace, v1alpha1.SecretTypeInvitation)
	}
	invited, err := readInvitation(secret)
	if err != nil {
		return nil, deny(p, v1alpha1.PeeringError, foreigncluster.ReasonInvitationInvalid,
			"Secret %s has no invitation (%v): request one from the provider's administrator, "+
				"and POST it to the subresource peer of this ForeignCluster.", secret.Name, err)
	}
	if !p.Now.Before(invited.expires) {
		return nil, deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonInvitationExpired,
			"The invitation expired at %s: request a new one from the provider's administrator, "+
				"and POST it to the subresource peer of this ForeignCluster.",
			invited.expires.UTC().Format(time.RFC3339))
	}
	return invited, foreigncluster.Continue
}

// ensureKey ensures that the Secret of the identity has a private key and a certificate signing
// request for the peering, and returns the Secret. It is stored before the IdentityRequest is sent,
// so that a retry after a crash sends the same signing request.
func (s *identityStep) ensureKey(
	ctx context.Context, fc *v1alpha1.ForeignCluster, secret *corev1.Secret, invited *invitation,
) (*corev1.Secret, error) {
	if secret != nil && len(secret.Data[remote.KeyPrivateKey]) > 0 && isFor(secret.Data[remote.KeyRequest], invited.uid) {
		return secret, nil
	}
	key, request, err := newKey(invited.uid)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{remote.KeyPrivateKey: key, remote.KeyRequest: request}
	namespace := naming.PeerNamespace(fc.Name)
	if secret == nil {
		secret = &corev1.Secret{
			ObjectMeta: kit.Managed(namespace, remote.SecretName), Type: v1alpha1.SecretTypeIdentity, Data: data,
		}
		err = s.Client.Create(ctx, secret)
	} else {
		secret = secret.DeepCopy()
		secret.Data = data
		err = s.Client.Update(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the private key in namespace %s: %w", namespace, err)
	}
	return secret, nil
}
