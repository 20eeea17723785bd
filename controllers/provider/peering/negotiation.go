// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// negotiationStep reports the states of the consumer's identity and of the negotiation of resources in
// the status. The controllers in the packages provider/admission, provider/identitysigner and
// provider/offer issue the identity and negotiate.
type negotiationStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *negotiationStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	identities, err := s.identities(ctx, p.ForeignCluster)
	if err != nil {
		return foreigncluster.Continue, err
	}
	p.Tenant = identityOf(identities)
	requests, offers, err := s.negotiation(ctx, p.ForeignCluster.Name)
	if err != nil {
		return foreigncluster.Continue, err
	}
	phase, reason, message := progress(requests, offers)
	foreigncluster.Incoming.Set(p.ForeignCluster, phase, reason, "%s", message)
	return foreigncluster.Continue, nil
}

// identityOf returns the state of the identity that a consumer requested.
func identityOf(requests []*v1alpha1.IdentityRequest) *foreigncluster.Verdict {
	if len(requests) == 0 {
		return &foreigncluster.Verdict{
			Phase: v1alpha1.PeeringPending, Reason: foreigncluster.ReasonAwaitingConsumer,
			Message: "The consumer has not requested an identity yet: send an invitation to its administrator.",
		}
	}
	for _, request := range requests {
		issued := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionIssued)
		switch {
		case request.Status.ServiceAccountName != "",
			identity.Certifies(request.Status.Certificate, request.Spec.Request) != nil,
			issued != nil && issued.Status == metav1.ConditionTrue:
			return &foreigncluster.Verdict{
				Phase: v1alpha1.PeeringEstablished, Reason: foreigncluster.ReasonIdentityIssued,
				Message: "The identity of the consumer is issued.",
			}
		case issued != nil && issued.Status == metav1.ConditionFalse:
			return &foreigncluster.Verdict{
				Phase: v1alpha1.PeeringDenied, Reason: foreigncluster.ReasonIdentityRefused, Message: issued.Message,
			}
		}
	}
	return &foreigncluster.Verdict{
		Phase: v1alpha1.PeeringPending, Reason: foreigncluster.ReasonIdentityPending,
		Message: "The consumer's certificate has not been issued yet.",
	}
}

// progress returns the state of the negotiation of resources: Established once the consumer accepted an
// offer, otherwise the answer to its resource request.
func progress(
	requests []v1alpha1.ResourceRequest, offers []v1alpha1.ResourceOffer,
) (phase v1alpha1.PeeringPhase, reason, message string) {
	for i := range offers {
		if offers[i].Status.Phase == v1alpha1.NegotiationAccepted && !offers[i].Spec.Withdrawn {
			return v1alpha1.PeeringEstablished, foreigncluster.ReasonOfferAccepted, "The consumer accepted the offer."
		}
	}
	for i := range requests {
		answer := foreigncluster.AnswerOf(requests[i].Status.Conditions)
		switch requests[i].Status.Phase {
		case v1alpha1.NegotiationRefused:
			return v1alpha1.PeeringDenied, foreigncluster.ReasonRequestRefused,
				"The resource request of the consumer is refused: " + answer
		case v1alpha1.NegotiationManualActionRequired:
			return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingDecision, answer
		}
	}
	return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingConsumer, "The consumer has not accepted an offer yet."
}
