// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// negotiationStep reports the state of the negotiation of resources in the status. The controllers in
// the packages consumer/request and link/replication negotiate.
type negotiationStep struct{ *Config }

// Reconcile implements foreigncluster.Step.
func (s *negotiationStep) Reconcile(ctx context.Context, p *foreigncluster.Pass) (foreigncluster.Outcome, error) {
	namespace := naming.PeerNamespace(p.ForeignCluster.Name)
	requests, err := s.requests(ctx, namespace)
	if err != nil {
		return foreigncluster.Continue, err
	}
	var offers v1alpha1.ResourceOfferList
	if err := s.Client.List(ctx, &offers, client.InNamespace(namespace)); err != nil {
		return foreigncluster.Continue, err
	}
	nodes, err := s.virtualNodes(ctx, namespace)
	if err != nil {
		return foreigncluster.Continue, err
	}
	p.ForeignCluster.Status.VirtualNodes = int32(len(nodes))
	if hasAcceptedOffer(offers.Items) && len(nodes) > 0 {
		foreigncluster.Outgoing.Set(p.ForeignCluster, v1alpha1.PeeringEstablished, foreigncluster.ReasonOfferAccepted,
			"The provider's offer is accepted, and its virtual nodes are created.%s", unused(p.ForeignCluster, offers.Items))
		if p.Unready == nil {
			p.Unready = unreadyNode(nodes)
		}
		return foreigncluster.Continue, nil
	}
	phase, reason, message := progress(p.ForeignCluster, requests, offers.Items)
	foreigncluster.Outgoing.Set(p.ForeignCluster, phase, reason, "%s", message)
	return foreigncluster.Continue, nil
}

// unused returns a sentence, with a leading space, that states why the provider gets no new pods; empty if it gets
// them.
func unused(fc *v1alpha1.ForeignCluster, offers []v1alpha1.ResourceOffer) string {
	switch {
	case fc.Spec.Cordoned:
		return " They get no new pods while spec.cordoned is true."
	case negotiation.Empty(offers):
		return " They get no new pods, because the offer contains no resources at the moment. " +
			"The provider's administrator can find the reason in the ForeignCluster of this cluster."
	}
	return ""
}

func hasAcceptedOffer(offers []v1alpha1.ResourceOffer) bool {
	for i := range offers {
		if offers[i].Status.Phase == v1alpha1.NegotiationAccepted && !offers[i].Spec.Withdrawn {
			return true
		}
	}
	return false
}

// progress returns the state of the negotiation while no offer is accepted or no virtual node exists:
// the provider's answer to the resource request if it prevents an offer, otherwise the state of the
// offers.
func progress(
	fc *v1alpha1.ForeignCluster, requests []v1alpha1.ResourceRequest, offers []v1alpha1.ResourceOffer,
) (phase v1alpha1.PeeringPhase, reason, message string) {
	for i := range requests {
		if phase, reason, message := answerTo(&requests[i]); phase != "" {
			return phase, reason, message
		}
	}
	for i := range offers {
		if offers[i].Spec.Withdrawn {
			return v1alpha1.PeeringDenied, foreigncluster.ReasonOfferWithdrawn,
				"The provider withdrew its offer. To end the peering, set spec.outgoing to Disabled or delete the ForeignCluster."
		}
	}
	for i := range offers {
		answer := foreigncluster.AnswerOf(offers[i].Status.Conditions)
		switch offers[i].Status.Phase {
		case v1alpha1.NegotiationManualActionRequired:
			return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingDecision, answer
		case v1alpha1.NegotiationRefused:
			if fc.Spec.OutgoingPolicy.Decision == v1alpha1.PeeringRefuse {
				answer = negotiation.WithRemedy(answer, "To accept the offer, set spec.outgoingPolicy.decision to Accept.")
			}
			return v1alpha1.PeeringDenied, foreigncluster.ReasonOfferRefused, answer
		}
	}
	for i := range requests {
		condition := meta.FindStatusCondition(requests[i].Status.Conditions, v1alpha1.ConditionAccepted)
		if condition != nil && condition.Status == metav1.ConditionUnknown {
			return v1alpha1.PeeringPending, foreigncluster.ReasonVersionsDiffer, condition.Message
		}
	}
	return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingProvider, "The provider has not made an offer yet."
}

// answerTo returns the phase, reason and message for a provider's answer to a resource request that
// prevents an offer: different API versions, a refusal, or a decision that its administrator has not
// made yet. The phase is empty if there is no such answer.
func answerTo(request *v1alpha1.ResourceRequest) (phase v1alpha1.PeeringPhase, reason, message string) {
	if _, ok := compatibility.CommonVersion(request.Status.APIVersions); !ok {
		return v1alpha1.PeeringDenied, foreigncluster.ReasonVersionsDiffer,
			compatibility.VersionsDiffer(request.Status.APIVersions)
	}
	if condition := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted); condition != nil {
		message = " " + condition.Message
	}
	switch request.Status.Phase {
	case v1alpha1.NegotiationRefused:
		return v1alpha1.PeeringDenied, foreigncluster.ReasonRequestRefused,
			negotiation.WithRemedy("The provider refuses the resource request."+message,
				"Once its administrator accepts, the peering continues without another invitation.")
	case v1alpha1.NegotiationManualActionRequired:
		return v1alpha1.PeeringPending, foreigncluster.ReasonAwaitingProvider,
			"The peering is not established yet." + message
	}
	return "", "", ""
}

// unreadyNode returns the reason and message for the first one of nodes that is not ready; nil if all are ready.
func unreadyNode(nodes []v1alpha1.VirtualNode) *foreigncluster.Verdict {
	for i := range nodes {
		message := ""
		condition := meta.FindStatusCondition(nodes[i].Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case condition == nil:
			message = fmt.Sprintf("Virtual node %s is starting.", nodes[i].Name)
		case condition.Status != metav1.ConditionTrue:
			message = fmt.Sprintf("Virtual node %s: %s", nodes[i].Name, condition.Message)
		default:
			continue
		}
		return &foreigncluster.Verdict{Reason: foreigncluster.ReasonVirtualNodeNotReady, Message: message}
	}
	return nil
}
