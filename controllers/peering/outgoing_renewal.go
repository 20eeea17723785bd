// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/controllers/remote"
)

// renewalRetry is how often a renewal is tried again that failed. A third of
// an identity's life is left then.
const renewalRetry = 30 * time.Second

// renewIdentity replaces an identity that goes on to be used until then. What
// fails is no reason to end a peering that works: it is said, and tried again.
func (s *identityStep) renewIdentity(ctx context.Context, p *pass, secret *corev1.Secret, identity *remote.Identity) (outcome, error) {
	renewed, err := s.renewed(ctx, p, &secret, identity)
	if err != nil {
		p.identity = &verdict{v1alpha1.PeeringEstablished, ReasonRenewalFailing, fmt.Sprintf(
			"The identity at the provider, which ends at %s, cannot be renewed: %s. It is tried again.",
			identity.ExpirationTime.UTC().Format(time.RFC3339), remote.Describe(err))}
		return outcome{after: min(renewalRetry, identity.ExpirationTime.Sub(p.now))}, nil
	}
	if renewed == nil {
		return outcome{after: answerPoll}, nil
	}
	changed := withIdentity(secret, renewed)
	if next := secret.Data[remote.KeyNextRequest]; len(next) > 0 {
		changed.Data[remote.KeyRequest] = next
	}
	delete(changed.Data, remote.KeyNextPrivateKey)
	delete(changed.Data, remote.KeyNextRequest)
	if secret, err = s.updateIdentity(ctx, changed); err != nil {
		return goOn, fmt.Errorf("keep the renewed identity at the provider: %w", err)
	}
	if renewed, err = remote.FromSecret(secret); err != nil {
		return goOn, err
	}
	if err := s.connect(ctx, p.fc.Name, renewed); err != nil {
		return goOn, fmt.Errorf("connect with the renewed identity: %w", err)
	}
	p.fc.Status.IdentityExpirationTime = &metav1.Time{Time: renewed.ExpirationTime}
	return outcome{after: max(renewed.RenewalTime().Sub(p.now), answerPoll)}, nil
}

// renewed asks for the identity that is to follow; nil means that it is being
// made. The key for it is kept before anything is sent, so that a retry after
// a crash sends the same request.
func (s *identityStep) renewed(ctx context.Context, p *pass, secret **corev1.Secret, identity *remote.Identity) (*remote.Identity, error) {
	next := *identity
	if identity.Account != "" {
		var err error
		next.Token, err = s.token(ctx, identity, identity.Namespace, identity.Account)
		return &next, err
	}
	peering, err := commonName(identity.Certificate)
	if err != nil {
		return nil, err
	}
	if len((*secret).Data[remote.KeyNextPrivateKey]) == 0 || !isFor((*secret).Data[remote.KeyNextRequest], peering) {
		key, request, err := newKey(peering)
		if err != nil {
			return nil, err
		}
		changed := (*secret).DeepCopy()
		changed.Data[remote.KeyNextPrivateKey], changed.Data[remote.KeyNextRequest] = key, request
		if *secret, err = s.updateIdentity(ctx, changed); err != nil {
			return nil, fmt.Errorf("keep the key of the identity that is to follow: %w", err)
		}
	}
	request := (*secret).Data[remote.KeyNextRequest]
	answer, err := s.renew(ctx, p.fc.Name, &v1alpha1.IdentityRequest{Spec: v1alpha1.IdentityRequestSpec{
		ClusterID: s.clusterID, ClusterName: s.clusterName, Request: request,
	}})
	if err != nil || rules.Certifies(answer.Status.Certificate, request) == nil {
		return nil, err
	}
	next.PrivateKey, next.Certificate = (*secret).Data[remote.KeyNextPrivateKey], answer.Status.Certificate
	if err := s.checkAnswer(answer, peering, next.PrivateKey); err != nil {
		return nil, err
	}
	if answer.Status.TenantNamespace != identity.Namespace {
		return nil, fmt.Errorf("the provider renews it for namespace %s, not %s", remote.Text(answer.Status.TenantNamespace), identity.Namespace)
	}
	return &next, nil
}

// commonName is the peering that a certificate of ours is for.
func commonName(chain []byte) (types.UID, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return "", remote.ErrIncomplete
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return types.UID(certificate.Subject.CommonName), nil
}

// invitedIdentity is who somebody is who holds an invitation and nothing else.
func invitedIdentity(fc *v1alpha1.ForeignCluster, token string) *remote.Identity {
	return &remote.Identity{Server: fc.Spec.Server, CA: fc.Spec.CABundle, ProxyURL: fc.Spec.ProxyURL, Token: token}
}
