// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/controllers/kit"
)

// Messages of the condition Accepted of an offer.
const (
	offerAccepted = "The offer is accepted."
	nodesDeleted  = "The virtual nodes of the offer are being deleted."
	nodesRemoved  = "The virtual nodes of the offer are deleted."
)

// acceptOffers answers the offers of the provider, and ensures the virtual nodes of the accepted offer that foremost
// selects. Only administrators create virtual nodes for other accepted offers. If no offer is accepted, acceptOffers
// deletes all virtual nodes of the provider.
func (r *Reconciler) acceptOffers(ctx context.Context, p *peering) error {
	slices.SortFunc(p.offers, func(a, b *v1alpha1.ResourceOffer) int { return cmp.Compare(a.Name, b.Name) })
	var accepted []*v1alpha1.ResourceOffer
	var surplus []*v1alpha1.VirtualNode
	for _, offer := range p.offers {
		phase, message := v1alpha1.NegotiationAccepted, offerAccepted
		switch {
		case offer.DeletionTimestamp != nil:
			continue
		case offer.Spec.ClusterID != p.fc.Spec.ClusterID:
			phase = v1alpha1.NegotiationRefused
			message = "The cluster ID in the offer is not spec.clusterID of the ForeignCluster."
		case offer.Spec.Withdrawn && slices.ContainsFunc(p.nodes, createdFrom(offer)):
			// The consumer confirms the withdrawal once the virtual nodes of the offer are deleted.
			phase, message = offer.Status.Phase, nodesDeleted
			for _, node := range p.nodes {
				if createdFrom(offer)(node) && !isOwn(node, p.fc) {
					surplus = append(surplus, node)
				}
			}
		case offer.Spec.Withdrawn:
			phase, message = v1alpha1.NegotiationWithdrawn, nodesRemoved
		default:
			phase, message = r.decide(p, offer)
			if phase == v1alpha1.NegotiationAccepted && p.fc.Spec.OutgoingPolicy.Decision != v1alpha1.PeeringRefuse {
				accepted = append(accepted, offer)
			}
		}
		if err := r.answer(ctx, offer, phase, message); err != nil {
			return err
		}
	}
	if len(accepted) == 0 {
		return r.deleteNodes(ctx, p.nodes)
	}
	if err := r.deleteNodes(ctx, surplus); err != nil {
		return err
	}
	return r.ensureNodes(ctx, p, r.foremost(p, accepted))
}

// foremost returns the accepted offer for which the controller creates virtual nodes: the offer that the provider
// names in the status of the resource request, otherwise the first offer, by name, that has virtual nodes which this
// controller created, otherwise the first one by name.
func (r *Reconciler) foremost(p *peering, accepted []*v1alpha1.ResourceOffer) *v1alpha1.ResourceOffer {
	named := func(offer *v1alpha1.ResourceOffer) bool {
		return slices.ContainsFunc(p.requests, func(request *v1alpha1.ResourceRequest) bool {
			return request.Name == r.ClusterName && request.Status.OfferName == offer.Name
		})
	}
	used := func(offer *v1alpha1.ResourceOffer) bool {
		return slices.ContainsFunc(p.nodes, func(node *v1alpha1.VirtualNode) bool {
			return isOwn(node, p.fc) && createdFrom(offer)(node)
		})
	}
	for _, is := range []func(*v1alpha1.ResourceOffer) bool{named, used} {
		if index := slices.IndexFunc(accepted, is); index >= 0 {
			return accepted[index]
		}
	}
	return accepted[0]
}

// decide returns the phase and message of the answer to a valid offer that is not withdrawn.
func (r *Reconciler) decide(p *peering, offer *v1alpha1.ResourceOffer) (v1alpha1.NegotiationPhase, string) {
	switch decision := p.fc.Spec.OutgoingPolicy; {
	case decision.Decision == v1alpha1.PeeringRefuse && slices.ContainsFunc(p.nodes, createdFrom(offer)):
		// The offer is refused once its virtual nodes are deleted.
		return offer.Status.Phase, nodesDeleted
	case decision.Decision == v1alpha1.PeeringRefuse:
		return v1alpha1.NegotiationRefused,
			negotiation.WithReason("The consumer's administrator refuses the offer", decision.Reason)
	case decision.Decision == v1alpha1.PeeringAccept:
		return v1alpha1.NegotiationAccepted,
			negotiation.WithReason("The consumer's administrator accepts the offer", decision.Reason)
	case negotiation.Undecided(&decision, r.AutoAccept) && offer.Status.Phase != v1alpha1.NegotiationAccepted:
		return v1alpha1.NegotiationManualActionRequired, fmt.Sprintf("The offer waits for a decision of the consumer's "+
			"administrator: set spec.outgoingPolicy.decision of ForeignCluster %s to Accept or Refuse.", p.fc.Name)
	}
	return v1alpha1.NegotiationAccepted, offerAccepted
}

// answer writes phase and message to the status of an offer; it does nothing if phase is empty.
func (r *Reconciler) answer(
	ctx context.Context, offer *v1alpha1.ResourceOffer, phase v1alpha1.NegotiationPhase, message string,
) error {
	if phase == "" {
		return nil
	}
	answered := offer.DeepCopy()
	answered.Status.Phase = phase
	answered.Status.ObservedGeneration = offer.Generation
	meta.SetStatusCondition(&answered.Status.Conditions, negotiation.Accepted(phase, message, offer.Generation))
	if _, err := kit.Commit(ctx, r.Client, offer, answered); err != nil {
		return fmt.Errorf("answering offer %s: %w", offer.Name, err)
	}
	return nil
}

func createdFrom(offer *v1alpha1.ResourceOffer) func(*v1alpha1.VirtualNode) bool {
	return func(node *v1alpha1.VirtualNode) bool { return node.Spec.OfferName == offer.Name }
}
