// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

const (
	// answerPoll is how often a consumer asks for a certificate that is being
	// made; it takes a second or so.
	answerPoll = 500 * time.Millisecond
	// deniedRetry is how often it asks again after a no that only people can
	// turn into a yes.
	deniedRetry = 5 * time.Minute
)

// identityStep gets this cluster an identity at its provider, and connects
// with it.
type identityStep struct {
	clusterID, clusterName string
	proxy                  ControlProxy

	getIdentity      func(ctx context.Context, namespace string) (*corev1.Secret, error)
	createIdentity   func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error)
	updateIdentity   func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error)
	getInvitation    func(name string) (*corev1.Secret, error)
	deleteInvitation func(ctx context.Context, invitation *corev1.Secret) error
	// request sends an IdentityRequest to the provider. The same one again is
	// answered with the one that is there.
	request func(ctx context.Context, fc *v1alpha1.ForeignCluster, token string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error)
	// token asks the provider for a token of a service account in the tenant
	// namespace there, with an identity, or with an invitation's token.
	token func(ctx context.Context, with *remote.Identity, namespace, account string) (string, error)
	// renew asks the provider, with the identity that there is, for a
	// certificate for another key.
	renew   func(ctx context.Context, foreignCluster string, request *v1alpha1.IdentityRequest) (*v1alpha1.IdentityRequest, error)
	connect func(ctx context.Context, foreignCluster string, identity *remote.Identity) error
}

func (s *identityStep) reconcile(ctx context.Context, p *pass) (outcome, error) {
	fc := p.fc
	switch {
	case fc.Spec.Server == "":
		return p.deny(v1alpha1.PeeringError, ReasonInvitationInvalid, "spec.server is empty: set the https URL of the provider's Kubernetes API."), nil
	case fc.Spec.ClusterID == s.clusterID:
		return p.deny(v1alpha1.PeeringError, ReasonOwnCluster, "The invitation is one of this very cluster: a cluster cannot borrow from itself."), nil
	}
	secret, err := s.getIdentity(ctx, naming.PeerNamespace(fc.Name))
	if err != nil && !apierrors.IsNotFound(err) {
		return goOn, fmt.Errorf("read the identity at the provider: %w", err)
	}
	if apierrors.IsNotFound(err) {
		secret = nil
	}
	if secret != nil {
		identity, err := remote.FromSecret(secret)
		switch {
		case err == nil && p.now.Before(identity.ExpirationTime) && !s.superseded(p, secret):
			return s.connected(ctx, p, secret, identity)
		case err != nil && !errors.Is(err, remote.ErrIncomplete):
			return p.deny(v1alpha1.PeeringError, ReasonIdentityInvalid, "%v: delete that Secret, and peer again with a new invitation.", err), nil
		}
	}
	return s.obtain(ctx, p, secret)
}

// connected uses an identity that is good.
func (s *identityStep) connected(ctx context.Context, p *pass, secret *corev1.Secret, identity *remote.Identity) (outcome, error) {
	fc := p.fc
	way, err := s.proxy.reach(fc)
	if err != nil {
		return p.deny(v1alpha1.PeeringError, ReasonNoControlProxy, "The provider cannot be reached by the tunnel: %v.", err), nil
	}
	if !alike(identity, way) {
		along(identity, way)
		if secret, err = s.updateIdentity(ctx, withIdentity(secret, identity)); err != nil {
			return goOn, fmt.Errorf("keep where the provider is reached now: %w", err)
		}
	}
	if err := s.connect(ctx, fc.Name, identity); err != nil {
		return p.deny(v1alpha1.PeeringError, ReasonIdentityInvalid, "The identity cannot be used: %s.", remote.Describe(err)), nil
	}
	if err := s.forgetInvitation(ctx, p, secret); err != nil {
		return goOn, err
	}
	fc.Status.RemoteTenantNamespace = identity.Namespace
	fc.Status.IdentityExpirationTime = &metav1.Time{Time: identity.ExpirationTime}
	p.identity = &verdict{v1alpha1.PeeringEstablished, ReasonIdentityIssued, "The provider accepts this cluster's identity."}
	if left := identity.RenewalTime().Sub(p.now); left > 0 {
		return outcome{after: left}, nil
	}
	return s.renewIdentity(ctx, p, secret, identity)
}

// superseded tells that an identity is good for nothing any more although it
// has not ended, and that there is an invitation to another one.
func (s *identityStep) superseded(p *pass, secret *corev1.Secret) bool {
	borrowing := meta.FindStatusCondition(p.fc.Status.Conditions, v1alpha1.ConditionOutgoingPeering)
	return borrowing != nil && borrowing.Reason == ReasonIdentityRevoked && s.invitedAnew(p, secret)
}

// invitedAnew tells whether there is an invitation to another identity than
// this one.
func (s *identityStep) invitedAnew(p *pass, identity *corev1.Secret) bool {
	if p.fc.Spec.InvitationSecretName == "" {
		return false
	}
	kept, err := s.getInvitation(p.fc.Spec.InvitationSecretName)
	if err != nil {
		return false
	}
	invited, err := readInvitation(kept)
	return err == nil && p.now.Before(invited.expires) && !isFor(identity.Data[remote.KeyRequest], invited.uid)
}

// withIdentity is the Secret with another identity in it.
func withIdentity(secret *corev1.Secret, identity *remote.Identity) *corev1.Secret {
	changed := secret.DeepCopy()
	for _, key := range []string{remote.KeyCA, remote.KeyProxy, remote.KeyProxyCA, remote.KeyControl, remote.KeyCertificate, remote.KeyToken, remote.KeyAccount} {
		delete(changed.Data, key)
	}
	maps.Copy(changed.Data, identity.Data())
	return changed
}

// forgetInvitation removes the invitation that paid for an identity. One to
// another identity stays: this one may have been revoked just now.
func (s *identityStep) forgetInvitation(ctx context.Context, p *pass, identity *corev1.Secret) error {
	if p.fc.Spec.InvitationSecretName == "" || s.invitedAnew(p, identity) {
		return nil
	}
	secret, err := s.getInvitation(p.fc.Spec.InvitationSecretName)
	if apierrors.IsNotFound(err) || (err == nil && secret.Type != v1alpha1.SecretTypeInvitation) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.deleteInvitation(ctx, secret); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the invitation that was used: %w", err)
	}
	return nil
}

// obtain pays for an identity with an invitation.
func (s *identityStep) obtain(ctx context.Context, p *pass, secret *corev1.Secret) (outcome, error) {
	fc := p.fc
	invited, out := s.invitation(p, secret)
	if invited == nil {
		return out, nil
	}
	if _, err := s.proxy.reach(fc); err != nil {
		return p.deny(v1alpha1.PeeringError, ReasonNoControlProxy, "The provider cannot be reached by the tunnel: %v.", err), nil
	}
	secret, err := s.keep(ctx, fc, secret, invited)
	if err != nil {
		return goOn, err
	}
	answer, err := s.request(ctx, fc, invited.token, &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: invited.account},
		Spec: v1alpha1.IdentityRequestSpec{
			ClusterID:   s.clusterID,
			ClusterName: s.clusterName,
			Request:     secret.Data[remote.KeyRequest],
		},
	})
	if err != nil {
		return s.refused(p, err)
	}
	if out, stop := s.answered(p, answer); stop {
		return out, nil
	}
	if err := s.checkAnswer(answer, invited.uid, secret.Data[remote.KeyPrivateKey], secret.Data[remote.KeyRequest]); err != nil {
		return p.deny(v1alpha1.PeeringError, ReasonIdentityInvalid, "The provider's answer cannot be used: %s.", remote.Text(err.Error())), nil
	}
	switch fc.Spec.ClusterID {
	case "":
		// Trust on first use: from now on it has to be this very cluster.
		fc.Spec.ClusterID = answer.Status.ClusterID
		return wait, nil
	case answer.Status.ClusterID:
	default:
		return p.deny(v1alpha1.PeeringError, ReasonClusterIDMismatch, "The cluster at %s says that its id is %s, not %s: check the server, or ask for a new invitation.",
			fc.Spec.Server, answer.Status.ClusterID, fc.Spec.ClusterID), nil
	}
	identity, err := s.proxy.reach(fc)
	if err != nil {
		return goOn, err
	}
	identity.PrivateKey, identity.Namespace = secret.Data[remote.KeyPrivateKey], answer.Status.TenantNamespace
	if account := givenAccount(answer, secret.Data[remote.KeyRequest]); account != "" {
		identity.Account = account
		with, err := s.proxy.invitedIdentity(fc, invited.token)
		if err != nil {
			return goOn, err
		}
		if identity.Token, err = s.token(ctx, with, identity.Namespace, account); err != nil {
			return s.refused(p, err)
		}
	} else {
		identity.Certificate = answer.Status.Certificate
	}
	if secret, err = s.updateIdentity(ctx, withIdentity(secret, identity)); err != nil {
		return goOn, fmt.Errorf("keep the identity at the provider: %w", err)
	}
	if identity, err = remote.FromSecret(secret); err != nil {
		return goOn, err
	}
	return s.connected(ctx, p, secret, identity)
}

// invitation reads the token, or says what is wrong with it.
func (s *identityStep) invitation(p *pass, identity *corev1.Secret) (*invitation, outcome) {
	fc := p.fc
	missing := ReasonInvitationMissing
	if identity != nil && len(identity.Data[remote.KeyCertificate])+len(identity.Data[remote.KeyToken]) > 0 {
		missing = ReasonIdentityExpired
	}
	if fc.Spec.InvitationSecretName == "" {
		return nil, p.deny(v1alpha1.PeeringError, missing, "There is no invitation: ask the provider's administrator for one, and POST it to the verb peer of this ForeignCluster.")
	}
	secret, err := s.getInvitation(fc.Spec.InvitationSecretName)
	if err != nil {
		return nil, p.deny(v1alpha1.PeeringError, missing, "The Secret %s with the invitation is not in the installation namespace, or not of type %s: ask the provider's administrator for an invitation, and POST it to the verb peer.",
			fc.Spec.InvitationSecretName, v1alpha1.SecretTypeInvitation)
	}
	invited, err := readInvitation(secret)
	if err != nil {
		return nil, p.deny(v1alpha1.PeeringError, ReasonInvitationInvalid, "The Secret %s holds no invitation (%v): ask the provider's administrator for one.", secret.Name, err)
	}
	if !p.now.Before(invited.expires) {
		return nil, p.deny(v1alpha1.PeeringDenied, ReasonInvitationExpired, "The invitation expired at %s: ask the provider's administrator for a new one, and POST it to the verb peer.",
			invited.expires.UTC().Format(time.RFC3339))
	}
	return invited, goOn
}

// keep stores a key and the request for it before anything is sent, so that a
// retry after a crash sends the same request.
func (s *identityStep) keep(ctx context.Context, fc *v1alpha1.ForeignCluster, secret *corev1.Secret, invited *invitation) (*corev1.Secret, error) {
	if secret != nil && len(secret.Data[remote.KeyPrivateKey]) > 0 && isFor(secret.Data[remote.KeyRequest], invited.uid) {
		return secret, nil
	}
	key, request, err := newKey(invited.uid)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{remote.KeyPrivateKey: key, remote.KeyRequest: request}
	if secret == nil {
		secret, err = s.createIdentity(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: naming.PeerNamespace(fc.Name),
				Name:      remote.SecretName,
				Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: fc.Name},
			},
			Type: v1alpha1.SecretTypeIdentity,
			Data: data,
		})
	} else {
		changed := secret.DeepCopy()
		changed.Data = data
		secret, err = s.updateIdentity(ctx, changed)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the private key in namespace %s: %w", naming.PeerNamespace(fc.Name), err)
	}
	return secret, nil
}
