// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

const (
	// probePeriod is how often a provider that answers is asked again, and
	// unreachableRetry how often one that does not.
	probePeriod      = time.Minute
	unreachableRetry = 10 * time.Second
	// grantDelay is how long a new identity may be without its rights.
	grantDelay = time.Second
)

// probeStep asks whether the provider still answers, and still knows us.
type probeStep struct {
	probe func(ctx context.Context, foreignCluster string) error
}

func (s *probeStep) reconcile(ctx context.Context, p *pass) (outcome, error) {
	err := s.probe(ctx, p.fc.Name)
	switch {
	case err == nil:
		return outcome{after: probePeriod}, nil
	case remote.Rejected(err) && p.fc.Status.OutgoingPeering == v1alpha1.PeeringPending:
		p.pend(ReasonIdentityPending, "The provider has not granted the rights of the new identity yet.")
		return waitAtMost(grantDelay), nil
	case remote.Rejected(err):
		out := p.deny(v1alpha1.PeeringDenied, ReasonIdentityRevoked,
			"The provider no longer accepts this cluster's identity: it ended the peering. Set outgoing to Disabled or delete the ForeignCluster, and ask for a new invitation if you want to peer again.")
		out.after = probePeriod
		return out, nil
	default:
		p.unready = &verdict{reason: ReasonProviderUnreachable,
			message: fmt.Sprintf("The provider at %s cannot be reached: %s. It is tried again.", p.fc.Spec.Server, remote.Describe(err))}
		return outcome{after: unreachableRetry}, nil
	}
}

// negotiationStep tells how far the request for resources has come.
type negotiationStep struct {
	requests     func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	offers       func(namespace string) ([]*v1alpha1.ResourceOffer, error)
	virtualNodes func(namespace string) ([]*v1alpha1.VirtualNode, error)
}

func (s *negotiationStep) reconcile(_ context.Context, p *pass) (outcome, error) {
	namespace := naming.PeerNamespace(p.fc.Name)
	requests, err := s.requests(namespace)
	if err != nil {
		return goOn, err
	}
	offers, err := s.offers(namespace)
	if err != nil {
		return goOn, err
	}
	nodes, err := s.virtualNodes(namespace)
	if err != nil {
		return goOn, err
	}
	p.fc.Status.VirtualNodes = int32(len(nodes))
	s.judge(p, requests, offers, nodes)
	return goOn, nil
}

func (s *negotiationStep) judge(p *pass, requests []*v1alpha1.ResourceRequest, offers []*v1alpha1.ResourceOffer, nodes []*v1alpha1.VirtualNode) {
	withdrawn := false
	for _, offer := range offers {
		withdrawn = withdrawn || offer.Spec.Withdrawn
		if offer.Status.Phase != v1alpha1.NegotiationAccepted || offer.Spec.Withdrawn || len(nodes) == 0 {
			continue
		}
		outgoingAspect.set(p.fc, v1alpha1.PeeringEstablished, ReasonOfferAccepted, "The provider's offer is accepted and has a virtual node.")
		if p.unready == nil {
			p.unready = unreadyNode(nodes)
		}
		return
	}
	for _, request := range requests {
		condition := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted)
		message := ""
		if condition != nil {
			message = ": " + condition.Message
		}
		if _, ok := compatibility.CommonVersion(request.Status.APIVersions); !ok {
			outgoingAspect.set(p.fc, v1alpha1.PeeringDenied, ReasonVersionsDiffer, "%s", compatibility.VersionsDiffer(request.Status.APIVersions))
			return
		}
		switch request.Status.Phase {
		case v1alpha1.NegotiationRefused:
			outgoingAspect.set(p.fc, v1alpha1.PeeringDenied, ReasonRequestRefused, "The provider refuses the request for resources%s", message)
			return
		case v1alpha1.NegotiationManualActionRequired:
			outgoingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonAwaitingProvider, "The provider's administrator has to decide%s", message)
			return
		}
	}
	if withdrawn {
		outgoingAspect.set(p.fc, v1alpha1.PeeringDenied, ReasonOfferWithdrawn,
			"The provider took its offer back. Set outgoing to Disabled or delete the ForeignCluster to clean up.")
		return
	}
	for _, offer := range offers {
		switch offer.Status.Phase {
		case v1alpha1.NegotiationManualActionRequired:
			outgoingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonAwaitingDecision, "%s", judged(offer.Status.Conditions))
			return
		case v1alpha1.NegotiationRefused:
			outgoingAspect.set(p.fc, v1alpha1.PeeringDenied, ReasonOfferRefused, "%s", judged(offer.Status.Conditions))
			return
		}
	}
	for _, request := range requests {
		condition := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted)
		if condition != nil && condition.Status == metav1.ConditionUnknown {
			outgoingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonVersionsDiffer, "%s", condition.Message)
			return
		}
	}
	outgoingAspect.set(p.fc, v1alpha1.PeeringPending, ReasonAwaitingProvider, "The provider has not made an offer yet.")
}

// judged is what the condition says that goes with an answer.
func judged(conditions []metav1.Condition) string {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted); condition != nil {
		return condition.Message
	}
	return "It was not said why."
}

// unreadyNode says which virtual node is not Ready, if one is not.
func unreadyNode(nodes []*v1alpha1.VirtualNode) *verdict {
	for _, node := range nodes {
		condition := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case condition == nil:
			return &verdict{reason: ReasonVirtualNodeNotReady, message: fmt.Sprintf("Virtual node %s is coming up.", node.Name)}
		case condition.Status != metav1.ConditionTrue:
			return &verdict{reason: ReasonVirtualNodeNotReady, message: fmt.Sprintf("Virtual node %s: %s", node.Name, condition.Message)}
		}
	}
	return nil
}
