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
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

const (
	// answerPoll is the time between two reads of the answer while the provider issues a
	// certificate, which takes about a second.
	answerPoll = 500 * time.Millisecond
	// deniedRetry is the time between two attempts while the peering is prevented by an obstacle that
	// only an administrator can remove.
	deniedRetry = 5 * time.Minute
)

// identityStep obtains an identity for this cluster at the provider, renews it before it expires, and
// opens the connection to the provider with it.
type identityStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *identityStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	switch {
	case fc.Spec.Server == "":
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonInvitationInvalid,
			"spec.server is empty: set it to the https URL of the provider's Kubernetes API server."), nil
	case fc.Spec.ClusterID == s.ClusterID:
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonOwnCluster,
			"spec.clusterID is the ID of this cluster, which cannot peer with itself: "+
				"use an invitation of another cluster."), nil
	}
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, identityKey(fc), secret)
	if apierrors.IsNotFound(err) {
		return s.obtain(ctx, p, nil)
	}
	if err != nil {
		return foreigncluster.Continue, fmt.Errorf("reading the identity at the provider: %w", err)
	}
	identity, err := remote.FromSecret(secret)
	switch {
	case err == nil && p.Now.Before(identity.ExpirationTime) && !s.superseded(ctx, p, secret):
		return s.use(ctx, p, secret, identity)
	case err != nil && !errors.Is(err, remote.ErrIncomplete):
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonIdentityInvalid,
			"The identity at the provider is invalid: %v. Delete that Secret, and peer again with a new invitation.", err), nil
	}
	return s.obtain(ctx, p, secret)
}

// identityKey returns namespace and name of the Secret with the identity of this cluster at a provider.
func identityKey(fc *v1alpha1.ForeignCluster) types.NamespacedName {
	return types.NamespacedName{Namespace: naming.PeerNamespace(fc.Name), Name: remote.SecretName}
}

// use opens the connection to the provider with a valid identity, and renews the identity once its
// renewal time has come. It deletes the invitation with which the identity was obtained.
func (s *identityStep) use(
	ctx context.Context, p *foreigncluster.Pass, secret *corev1.Secret, identity *remote.Identity,
) (foreigncluster.Outcome, error) {
	fc := p.ForeignCluster
	route, err := s.ControlProxy.route(fc)
	if err != nil {
		return unroutable(p, err), nil
	}
	if !sameRoute(identity, route) {
		setRoute(identity, route)
		secret = withIdentity(secret, identity)
		if err := s.Client.Update(ctx, secret); err != nil {
			return foreigncluster.Continue, fmt.Errorf("storing the address, CA and proxy of the provider: %w", err)
		}
	}
	if err := s.Peers.Set(ctx, fc.Name, identity); err != nil {
		return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonIdentityInvalid,
			"The identity at the provider cannot be used: %s.", remote.Describe(err)), nil
	}
	if err := s.deleteUsedInvitation(ctx, p, secret); err != nil {
		return foreigncluster.Continue, err
	}
	fc.Status.RemoteTenantNamespace = identity.Namespace
	fc.Status.IdentityExpirationTime = &metav1.Time{Time: identity.ExpirationTime}
	p.Identity = &foreigncluster.Verdict{
		Phase: v1alpha1.PeeringEstablished, Reason: foreigncluster.ReasonIdentityIssued,
		Message: "The provider has issued an identity to this cluster.",
	}
	if left := identity.RenewalTime().Sub(p.Now); left > 0 {
		return foreigncluster.Outcome{After: left}, nil
	}
	return s.renew(ctx, p, secret, identity)
}

func unroutable(p *foreigncluster.Pass, err error) foreigncluster.Outcome {
	return deny(p, v1alpha1.PeeringError, foreigncluster.ReasonNoControlProxy,
		"The provider cannot be reached through the tunnel: %v.", err)
}

// superseded reports whether the provider revoked the identity in the Secret, and spec names a valid
// invitation with which another identity can be obtained.
func (s *identityStep) superseded(ctx context.Context, p *foreigncluster.Pass, secret *corev1.Secret) bool {
	outgoing := meta.FindStatusCondition(p.ForeignCluster.Status.Conditions, v1alpha1.ConditionOutgoingPeering)
	return outgoing != nil && outgoing.Reason == foreigncluster.ReasonIdentityRevoked &&
		s.hasOtherInvitation(ctx, p, secret)
}

// hasOtherInvitation reports whether the ForeignCluster names a valid invitation that the identity in
// the Secret was not obtained with.
func (s *identityStep) hasOtherInvitation(
	ctx context.Context, p *foreigncluster.Pass, identity *corev1.Secret,
) bool {
	if p.ForeignCluster.Spec.InvitationSecretName == "" {
		return false
	}
	secret, err := s.invitationSecret(ctx, p.ForeignCluster)
	if err != nil {
		return false
	}
	invited, err := readInvitation(secret)
	return err == nil && p.Now.Before(invited.expires) && !isFor(identity.Data[remote.KeyRequest], invited.uid)
}

// withIdentity returns a copy of a Secret with another identity. The keys for a renewal are kept.
func withIdentity(secret *corev1.Secret, identity *remote.Identity) *corev1.Secret {
	changed := secret.DeepCopy()
	for _, key := range []string{
		remote.KeyCA, remote.KeyProxy, remote.KeyProxyCA, remote.KeyControl, remote.KeyCertificate, remote.KeyToken,
		remote.KeyAccount,
	} {
		delete(changed.Data, key)
	}
	maps.Copy(changed.Data, identity.Data())
	return changed
}

// deleteUsedInvitation deletes the Secret with the invitation with which the identity was obtained.
// It keeps an unused invitation, which replaces the identity if the provider has revoked it.
func (s *identityStep) deleteUsedInvitation(
	ctx context.Context, p *foreigncluster.Pass, identity *corev1.Secret,
) error {
	if p.ForeignCluster.Spec.InvitationSecretName == "" || s.hasOtherInvitation(ctx, p, identity) {
		return nil
	}
	secret, err := s.invitationSecret(ctx, p.ForeignCluster)
	if apierrors.IsNotFound(err) || (err == nil && secret.Type != v1alpha1.SecretTypeInvitation) {
		return nil
	}
	if err != nil {
		return err
	}
	return kit.Delete(ctx, s.Client, secret)
}
