// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// renewalRetry is the time between two attempts after a renewal failed. The first attempt is made
// when a third of the identity's lifetime is left.
const renewalRetry = 30 * time.Second

// renew requests the next identity, stores it, and opens the connection with it. The current identity
// is used until then. If the request fails, the peering stays established: the failure is reported in
// the condition Authenticated, and the request is retried.
func (s *identityStep) renew(
	ctx context.Context, p *foreigncluster.Pass, secret *corev1.Secret, current *remote.Identity,
) (foreigncluster.Outcome, error) {
	renewed, err := s.renewed(ctx, p, &secret, current)
	if err != nil {
		p.Identity = &foreigncluster.Verdict{
			Phase: v1alpha1.PeeringEstablished, Reason: foreigncluster.ReasonRenewalFailing,
			Message: fmt.Sprintf("The identity at the provider expires at %s and cannot be renewed: %s. The renewal is retried.",
				current.ExpirationTime.UTC().Format(time.RFC3339), remote.Describe(err)),
		}
		return foreigncluster.Outcome{After: min(renewalRetry, current.ExpirationTime.Sub(p.Now))}, nil
	}
	if renewed == nil {
		return foreigncluster.Outcome{After: answerPoll}, nil
	}
	changed := withoutNext(withIdentity(secret, renewed))
	if renewed.Account == "" {
		changed.Data[remote.KeyRequest] = secret.Data[remote.KeyNextRequest]
	}
	if err := s.Client.Update(ctx, changed); err != nil {
		return foreigncluster.Continue, fmt.Errorf("storing the renewed identity at the provider: %w", err)
	}
	if renewed, err = remote.FromSecret(changed); err != nil {
		return foreigncluster.Continue, err
	}
	if err := s.Peers.Set(ctx, p.ForeignCluster.Name, renewed); err != nil {
		return foreigncluster.Continue, fmt.Errorf("connecting with the renewed identity: %w", err)
	}
	p.ForeignCluster.Status.IdentityExpirationTime = &metav1.Time{Time: renewed.ExpirationTime}
	return foreigncluster.Outcome{After: max(renewed.RenewalTime().Sub(p.Now), answerPoll)}, nil
}

// renewed requests the next identity, and returns nil while the provider issues it. The provider
// decides at each renewal whether the identity is a certificate or a token.
func (s *identityStep) renewed(
	ctx context.Context, p *foreigncluster.Pass, secret **corev1.Secret, current *remote.Identity,
) (*remote.Identity, error) {
	next := *current
	answer, err := s.requestCertificate(ctx, p, secret, current)
	if err == nil && identity.Certifies(answer.Status.Certificate, answer.Spec.Request) != nil {
		next.Token, next.Account = "", ""
		next.PrivateKey, next.Certificate = (*secret).Data[remote.KeyNextPrivateKey], answer.Status.Certificate
		return &next, nil
	}
	switch {
	case err == nil && identity.KnownByAccount(answer.Status.Conditions, answer.Generation):
		next.Account = answer.Status.ServiceAccountName
	case current.Account == "":
		if err == nil {
			err = s.unsigned(ctx, secret, answer)
		}
		return nil, err
	case err == nil && p.Now.Before(tokenTime(current)):
		return nil, nil
	}
	// If the current identity is a token, the next token is requested even if the provider failed to
	// answer the request for a certificate, or did not answer it before tokenTime.
	next.Certificate = nil
	next.Token, err = s.requestToken(ctx, current, current.Namespace, next.Account)
	return &next, err
}

// tokenTime returns the time at which a consumer whose identity is a token stops waiting for a
// certificate, and requests another token: halfway between the renewal time and the expiration time.
func tokenTime(current *remote.Identity) time.Time {
	return current.ExpirationTime.Add(-current.ExpirationTime.Sub(current.RenewalTime()) / 2)
}

// requestCertificate requests a certificate for another key, and returns the provider's answer. The
// key is stored in the Secret before the request is sent, so that a retry after a crash sends the
// same signing request. It fails if the answer has an invalid identity.
func (s *identityStep) requestCertificate(
	ctx context.Context, p *foreigncluster.Pass, secret **corev1.Secret, current *remote.Identity,
) (*v1alpha1.IdentityRequest, error) {
	peering := types.UID(identity.RequestedName((*secret).Data[remote.KeyRequest]))
	if len((*secret).Data[remote.KeyNextPrivateKey]) == 0 || !isFor((*secret).Data[remote.KeyNextRequest], peering) {
		key, request, err := newKey(peering)
		if err != nil {
			return nil, err
		}
		changed := (*secret).DeepCopy()
		changed.Data[remote.KeyNextPrivateKey], changed.Data[remote.KeyNextRequest] = key, request
		if err := s.Client.Update(ctx, changed); err != nil {
			return nil, fmt.Errorf("storing the key of the next identity: %w", err)
		}
		*secret = changed
	}
	request := (*secret).Data[remote.KeyNextRequest]
	answer, err := s.requestRenewal(ctx, p.ForeignCluster.Name, &v1alpha1.IdentityRequest{
		Spec: v1alpha1.IdentityRequestSpec{ClusterID: s.ClusterID, ClusterName: s.ClusterName, Request: request},
	})
	if err != nil {
		return nil, err
	}
	answer.Spec.Request = request
	if identity.Certifies(answer.Status.Certificate, request) == nil &&
		!identity.KnownByAccount(answer.Status.Conditions, answer.Generation) {
		return answer, nil
	}
	if err := s.validate(answer, peering, (*secret).Data[remote.KeyNextPrivateKey], request); err != nil {
		return nil, err
	}
	if answer.Status.TenantNamespace != current.Namespace {
		return nil, fmt.Errorf("the provider issued the next identity for namespace %s instead of %s",
			remote.Text(answer.Status.TenantNamespace), current.Namespace)
	}
	return answer, nil
}

// unsigned returns an error with the reason why the provider has not signed a renewal, or nil if the
// provider reports none. If the provider refused the signing request, unsigned deletes its key, so
// that the next request is for another key.
func (s *identityStep) unsigned(ctx context.Context, secret **corev1.Secret, answer *v1alpha1.IdentityRequest) error {
	issued := meta.FindStatusCondition(answer.Status.Conditions, v1alpha1.ConditionIssued)
	if issued == nil || issued.ObservedGeneration != answer.Generation || issued.Status == metav1.ConditionTrue {
		return nil
	}
	if issued.Status == metav1.ConditionFalse {
		changed := withoutNext(*secret)
		if err := s.Client.Update(ctx, changed); err != nil {
			return fmt.Errorf("deleting the key of the refused signing request: %w", err)
		}
		*secret = changed
	}
	return fmt.Errorf("response of the provider (%s): %s", remote.Text(issued.Reason), remote.Text(issued.Message))
}

// withoutNext returns a copy of the Secret of an identity without the key of the next identity.
func withoutNext(secret *corev1.Secret) *corev1.Secret {
	changed := secret.DeepCopy()
	delete(changed.Data, remote.KeyNextPrivateKey)
	delete(changed.Data, remote.KeyNextRequest)
	return changed
}
