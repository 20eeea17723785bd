// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/negotiation"
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
	phase, reason, message := progress(p.ForeignCluster, requests, offers)
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
// offer, otherwise the answer to its resource request or, if that is accepted, the consumer's answer to the offers.
func progress(
	fc *v1alpha1.ForeignCluster, requests []v1alpha1.ResourceRequest, offers []v1alpha1.ResourceOffer,
) (phase v1alpha1.PeeringPhase, reason, message string) {
	for i := range offers {
		if offers[i].Status.Phase == v1alpha1.NegotiationAccepted && !offers[i].Spec.Withdrawn {
			return v1alpha1.PeeringEstablished, foreigncluster.ReasonOfferAccepted,
				"The consumer accepted the offer." + nothingOffered(fc, offers)
		}
	}
	for i := range requests {
		answer := foreigncluster.AnswerOf(requests[i].Status.Conditions)
		switch requests[i].Status.Phase {
		case v1alpha1.NegotiationRefused:
			if fc.Spec.IncomingPolicy.Decision == v1alpha1.PeeringRefuse {
				answer = negotiation.WithRemedy(answer, "To accept the request, set spec.incomingPolicy.decision to Accept.")
			}
			return v1alpha1.PeeringDenied, foreigncluster.ReasonRequestRefused, answer
		case v1alpha1.NegotiationManualActionRequired:
			return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingDecision, answer
		}
	}
	for i := range offers {
		answer := foreigncluster.AnswerOf(offers[i].Status.Conditions)
		switch {
		case offers[i].Spec.Withdrawn:
		case offers[i].Status.Phase == v1alpha1.NegotiationRefused:
			return v1alpha1.PeeringDenied, foreigncluster.ReasonOfferRefused,
				"The consumer refuses the offer. Response of the consumer: " + answer
		case offers[i].Status.Phase == v1alpha1.NegotiationManualActionRequired:
			return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingConsumer,
				"The consumer has not accepted the offer yet. Response of the consumer: " + answer
		}
	}
	return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingConsumer, "The consumer has not accepted an offer yet."
}

// nothingOffered returns a sentence, after a space, about why the accepted offers contain no resources; empty if they
// contain some.
func nothingOffered(fc *v1alpha1.ForeignCluster, offers []v1alpha1.ResourceOffer) string {
	switch {
	case !negotiation.Empty(offers):
		return ""
	case fc.Spec.Cordoned:
		return " It contains no resources while spec.cordoned is true."
	}
	return " It contains no resources, so the consumer's new pods stay pending: no schedulable node has the labels of " +
		"the nodeSelector, or limits are 0. Check spec.incomingPolicy, and the values policy.nodeSelector and policy.limits."
}
