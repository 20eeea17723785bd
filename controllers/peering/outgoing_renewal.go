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
	"liqo.io/federation/controllers/remote"
)

// renewalRetry is how often a renewal is tried again that failed. A third of
// an identity's life is left then.
const renewalRetry = 30 * time.Second

// renewIdentity replaces an identity that goes on to be used until then. What
// fails is no reason to end a peering that works: it is said, and tried again.
func (s *identityStep) renewIdentity(ctx context.Context, p *pass, secret *corev1.Secret, current *remote.Identity) (outcome, error) {
	renewed, err := s.renewed(ctx, p, &secret, current)
	if err != nil {
		p.identity = &verdict{v1alpha1.PeeringEstablished, ReasonRenewalFailing, fmt.Sprintf(
			"The identity at the provider, which ends at %s, cannot be renewed: %s. It is tried again.",
			current.ExpirationTime.UTC().Format(time.RFC3339), remote.Describe(err))}
		return outcome{after: min(renewalRetry, current.ExpirationTime.Sub(p.now))}, nil
	}
	if renewed == nil {
		return outcome{after: answerPoll}, nil
	}
	changed := withoutNext(withIdentity(secret, renewed))
	if renewed.Account == "" {
		changed.Data[remote.KeyRequest] = secret.Data[remote.KeyNextRequest]
	}
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
// made. Which kind it is the provider decides each time anew.
func (s *identityStep) renewed(ctx context.Context, p *pass, secret **corev1.Secret, current *remote.Identity) (*remote.Identity, error) {
	next := *current
	answer, err := s.askAnew(ctx, p, secret, current)
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
	case err == nil && p.now.Before(lastCall(current)):
		return nil, nil
	}
	// Whoever has an account gets a token also from a provider that does not
	// say in time, or at all, whether there could be a certificate.
	next.Certificate = nil
	next.Token, err = s.token(ctx, current, current.Namespace, next.Account)
	return &next, err
}

// lastCall is when half of the time is over in which an identity is renewed.
func lastCall(current *remote.Identity) time.Time {
	return current.ExpirationTime.Add(-current.ExpirationTime.Sub(current.RenewalTime()) / 2)
}

// askAnew asks for a certificate for another key. That is kept before anything
// is sent, so that a retry after a crash sends the same request.
func (s *identityStep) askAnew(ctx context.Context, p *pass, secret **corev1.Secret, current *remote.Identity) (*v1alpha1.IdentityRequest, error) {
	peering := types.UID(identity.RequestedName((*secret).Data[remote.KeyRequest]))
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
	if err != nil {
		return nil, err
	}
	answer.Spec.Request = request
	if identity.Certifies(answer.Status.Certificate, request) == nil && !identity.KnownByAccount(answer.Status.Conditions, answer.Generation) {
		return answer, nil
	}
	if err := s.checkAnswer(answer, peering, (*secret).Data[remote.KeyNextPrivateKey], request); err != nil {
		return nil, err
	}
	if answer.Status.TenantNamespace != current.Namespace {
		return nil, fmt.Errorf("the provider renews it for namespace %s, not %s", remote.Text(answer.Status.TenantNamespace), current.Namespace)
	}
	return answer, nil
}

// unsigned says why a renewal is not signed, if the provider says so. A request
// that is refused is not sent again: the next one is for another key.
func (s *identityStep) unsigned(ctx context.Context, secret **corev1.Secret, answer *v1alpha1.IdentityRequest) error {
	issued := meta.FindStatusCondition(answer.Status.Conditions, v1alpha1.ConditionIssued)
	if issued == nil || issued.ObservedGeneration != answer.Generation || issued.Status == metav1.ConditionTrue {
		return nil
	}
	if issued.Status == metav1.ConditionFalse {
		changed := withoutNext(*secret)
		var err error
		if *secret, err = s.updateIdentity(ctx, changed); err != nil {
			return fmt.Errorf("drop the key that is not certified: %w", err)
		}
	}
	return fmt.Errorf("the provider says (%s): %s", remote.Text(issued.Reason), remote.Text(issued.Message))
}

// withoutNext is the Secret of an identity without the key that was to follow.
func withoutNext(secret *corev1.Secret) *corev1.Secret {
	changed := secret.DeepCopy()
	delete(changed.Data, remote.KeyNextPrivateKey)
	delete(changed.Data, remote.KeyNextRequest)
	return changed
}

// invitedIdentity is who somebody is who holds an invitation and nothing else.
func (p ControlProxy) invitedIdentity(fc *v1alpha1.ForeignCluster, token string) (*remote.Identity, error) {
	current, err := p.reach(fc)
	if err != nil {
		return nil, err
	}
	current.Token = token
	return current, nil
}
