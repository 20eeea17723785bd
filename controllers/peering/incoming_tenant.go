// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// ownedBy keeps the identity requests that belong to a foreign cluster.
func ownedBy(fc *v1alpha1.ForeignCluster, requests []*v1alpha1.IdentityRequest) []*v1alpha1.IdentityRequest {
	var owned []*v1alpha1.IdentityRequest
	for _, request := range requests {
		if metav1.IsControlledBy(request, fc) {
			owned = append(owned, request)
		}
	}
	return owned
}

// withdrawnStep ends the lending when the consumer says that it is over: its
// ForeignCluster goes, unless this cluster borrows from it as well.
type withdrawnStep struct {
	requests func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	remove   func(ctx context.Context, fc *v1alpha1.ForeignCluster) error
}

func (s *withdrawnStep) reconcile(ctx context.Context, p *pass) (outcome, error) {
	if !kit.IncomingEnabled(p.fc) {
		return goOn, nil
	}
	requests, err := s.requests(naming.TenantNamespace(p.fc.Name))
	if err != nil {
		return goOn, err
	}
	if !slices.ContainsFunc(requests, func(r *v1alpha1.ResourceRequest) bool { return r.Spec.Withdrawn && r.DeletionTimestamp == nil }) {
		return goOn, nil
	}
	if kit.OutgoingEnabled(p.fc) {
		p.fc.Spec.Incoming = v1alpha1.PeeringDisabled
		return wait, nil
	}
	return wait, s.remove(ctx, p.fc)
}

// lendingStep tells how the lending stands.
type lendingStep struct {
	identities func() ([]*v1alpha1.IdentityRequest, error)
	requests   func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	offers     func(namespace string) ([]*v1alpha1.ResourceOffer, error)
}

func (s *lendingStep) reconcile(_ context.Context, p *pass) (outcome, error) {
	identities, err := s.identities()
	if err != nil {
		return goOn, err
	}
	p.tenant = judgeTenant(ownedBy(p.fc, identities))
	namespace := naming.TenantNamespace(p.fc.Name)
	requests, err := s.requests(namespace)
	if err != nil {
		return goOn, err
	}
	offers, err := s.offers(namespace)
	if err != nil {
		return goOn, err
	}
	phase, reason, message := judgeLending(requests, offers)
	incomingAspect.set(p.fc, phase, reason, "%s", message)
	return goOn, nil
}

func judgeTenant(requests []*v1alpha1.IdentityRequest) *verdict {
	if len(requests) == 0 {
		return &verdict{v1alpha1.PeeringPending, ReasonAwaitingConsumer, "The consumer has not asked for an identity: give its administrator an invitation."}
	}
	for _, request := range requests {
		issued := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionIssued)
		switch {
		case request.Status.ServiceAccountName != "", identity.Certifies(request.Status.Certificate, request.Spec.Request) != nil:
			return &verdict{v1alpha1.PeeringEstablished, ReasonIdentityIssued, "The consumer has its identity."}
		case issued == nil, issued.Status == metav1.ConditionUnknown:
		case issued.Status == metav1.ConditionTrue:
			return &verdict{v1alpha1.PeeringEstablished, ReasonIdentityIssued, "The consumer has its identity."}
		default:
			return &verdict{v1alpha1.PeeringDenied, ReasonIdentityRefused, issued.Message}
		}
	}
	return &verdict{v1alpha1.PeeringPending, ReasonIdentityPending, "The consumer's certificate is being made."}
}

func judgeLending(requests []*v1alpha1.ResourceRequest, offers []*v1alpha1.ResourceOffer) (v1alpha1.PeeringPhase, string, string) {
	for _, offer := range offers {
		if offer.Status.Phase == v1alpha1.NegotiationAccepted && !offer.Spec.Withdrawn {
			return v1alpha1.PeeringEstablished, ReasonOfferAccepted, "The consumer accepted the offer."
		}
	}
	for _, request := range requests {
		switch request.Status.Phase {
		case v1alpha1.NegotiationRefused:
			return v1alpha1.PeeringDenied, ReasonRequestRefused, "The consumer's request is refused: " + judged(request.Status.Conditions)
		case v1alpha1.NegotiationManualActionRequired:
			return v1alpha1.PeeringPending, ReasonAwaitingDecision, judged(request.Status.Conditions)
		}
	}
	return v1alpha1.PeeringPending, ReasonAwaitingConsumer, "The consumer has not accepted an offer yet."
}
