// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// consumer asks providers for resources, accepts what they offer, and makes
// virtual nodes of it.
type consumer struct {
	clusterName string
	// autoAccept takes offers without an administrator's word.
	autoAccept bool

	foreignCluster func(name string) (*v1alpha1.ForeignCluster, error)
	requests       func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	offers         func(namespace string) ([]*v1alpha1.ResourceOffer, error)
	nodes          func(namespace string) ([]*v1alpha1.VirtualNode, error)
	// taken tells whether a name for a virtual node means another cluster, or is
	// that of another cluster's virtual node.
	taken         func(namespace, name string) (bool, error)
	createRequest func(ctx context.Context, request *v1alpha1.ResourceRequest) error
	commitRequest func(ctx context.Context, old, wanted *v1alpha1.ResourceRequest) (bool, error)
	commitOffer   func(ctx context.Context, old, wanted *v1alpha1.ResourceOffer) (bool, error)
	createNode    func(ctx context.Context, node *v1alpha1.VirtualNode) error
	commitNode    func(ctx context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error)
	removeNode    func(ctx context.Context, node *v1alpha1.VirtualNode) error
}

func (r *consumer) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	fc, err := r.foreignCluster(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	namespace := naming.PeerNamespace(fc.Name)
	nodes, err := r.nodes(namespace)
	if err != nil {
		return 0, err
	}
	offers, err := r.offers(namespace)
	if err != nil {
		return 0, err
	}
	if placement.Ending(fc) {
		return 0, r.leave(ctx, namespace, nodes, offers)
	}
	// Without an identity there is nobody to ask.
	if fc.Status.RemoteTenantNamespace == "" || fc.Status.PeerNamespace == "" {
		return 0, nil
	}
	if err := r.ask(ctx, fc, namespace); err != nil {
		return 0, err
	}
	return 0, r.take(ctx, fc, nodes, offers)
}

// ask makes the request what the ForeignCluster wants.
func (r *consumer) ask(ctx context.Context, fc *v1alpha1.ForeignCluster, namespace string) error {
	requests, err := r.requests(namespace)
	if err != nil {
		return err
	}
	wanted := v1alpha1.ResourceRequestSpec{Resources: fc.Spec.Resources, APIVersions: compatibility.APIVersions(), Features: compatibility.Features()}
	index := slices.IndexFunc(requests, func(request *v1alpha1.ResourceRequest) bool { return request.Name == r.clusterName })
	if index < 0 {
		err := r.createRequest(ctx, &v1alpha1.ResourceRequest{ObjectMeta: kit.Managed(namespace, r.clusterName), Spec: wanted})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("ask for resources in namespace %s: %w", namespace, err)
		}
		return nil
	}
	changed := requests[index].DeepCopy()
	changed.Spec = wanted
	if _, err := r.commitRequest(ctx, requests[index], changed); err != nil {
		return fmt.Errorf("change what is asked for in namespace %s: %w", namespace, err)
	}
	return nil
}

// leave removes the virtual nodes, and when they are gone takes the request
// back.
func (r *consumer) leave(ctx context.Context, namespace string, nodes []*v1alpha1.VirtualNode, offers []*v1alpha1.ResourceOffer) error {
	if len(nodes) > 0 {
		return r.removeNodes(ctx, nodes)
	}
	for _, offer := range offers {
		if offer.Spec.Withdrawn {
			if err := r.answer(ctx, offer, v1alpha1.NegotiationWithdrawn, "The virtual nodes are gone."); err != nil {
				return err
			}
		}
	}
	requests, err := r.requests(namespace)
	if err != nil {
		return err
	}
	for _, request := range requests {
		if request.DeletionTimestamp != nil {
			continue
		}
		withdrawn := request.DeepCopy()
		withdrawn.Spec.Withdrawn = true
		if _, err := r.commitRequest(ctx, request, withdrawn); err != nil {
			return fmt.Errorf("take the request for resources back: %w", err)
		}
	}
	return nil
}

// take answers the offers of the provider, and makes virtual nodes of one of
// those that it accepts. Of the others an administrator makes some.
func (r *consumer) take(ctx context.Context, fc *v1alpha1.ForeignCluster, nodes []*v1alpha1.VirtualNode, offers []*v1alpha1.ResourceOffer) error {
	slices.SortFunc(offers, func(a, b *v1alpha1.ResourceOffer) int { return strings.Compare(a.Name, b.Name) })
	var taken []*v1alpha1.ResourceOffer
	var left []*v1alpha1.VirtualNode
	for _, offer := range offers {
		phase, message := v1alpha1.NegotiationAccepted, "The offer is accepted."
		switch {
		case offer.DeletionTimestamp != nil:
			continue
		case offer.Spec.ClusterID != fc.Spec.ClusterID:
			phase, message = v1alpha1.NegotiationRefused, "It is the offer of another cluster than the ForeignCluster stands for."
		case offer.Spec.Withdrawn && slices.ContainsFunc(nodes, madeFrom(offer)):
			// It is given back when its virtual nodes are gone.
			phase, message = offer.Status.Phase, "The virtual nodes are being removed."
			for _, node := range nodes {
				if madeFrom(offer)(node) && !standsFor(node, fc) {
					left = append(left, node)
				}
			}
		case offer.Spec.Withdrawn:
			phase, message = v1alpha1.NegotiationWithdrawn, "The virtual nodes are gone."
		default:
			if phase, message = r.decide(fc, offer, nodes); phase == v1alpha1.NegotiationAccepted && fc.Spec.Borrowing.Decision != v1alpha1.PeeringRefuse {
				taken = append(taken, offer)
			}
		}
		if err := r.answer(ctx, offer, phase, message); err != nil {
			return err
		}
	}
	if len(taken) == 0 {
		return r.removeNodes(ctx, nodes)
	}
	if err := r.removeNodes(ctx, left); err != nil {
		return err
	}
	offer, err := r.foremost(fc, taken, nodes)
	if err != nil {
		return err
	}
	return r.makeNodes(ctx, fc, offer, nodes)
}

// foremost is the offer that virtual nodes are made of without an administrator:
// the one that the provider names in its answer or, before it is known, the one
// that they are made of already.
func (r *consumer) foremost(fc *v1alpha1.ForeignCluster, taken []*v1alpha1.ResourceOffer, nodes []*v1alpha1.VirtualNode) (*v1alpha1.ResourceOffer, error) {
	requests, err := r.requests(naming.PeerNamespace(fc.Name))
	if err != nil {
		return nil, err
	}
	named := func(offer *v1alpha1.ResourceOffer) bool {
		return slices.ContainsFunc(requests, func(request *v1alpha1.ResourceRequest) bool {
			return request.Name == r.clusterName && request.Status.OfferName == offer.Name
		})
	}
	used := func(offer *v1alpha1.ResourceOffer) bool {
		return slices.ContainsFunc(nodes, func(node *v1alpha1.VirtualNode) bool { return standsFor(node, fc) && madeFrom(offer)(node) })
	}
	for _, is := range []func(*v1alpha1.ResourceOffer) bool{named, used} {
		if index := slices.IndexFunc(taken, is); index >= 0 {
			return taken[index], nil
		}
	}
	return taken[0], nil
}

// decide answers an offer that could be taken.
func (r *consumer) decide(fc *v1alpha1.ForeignCluster, offer *v1alpha1.ResourceOffer, nodes []*v1alpha1.VirtualNode) (v1alpha1.NegotiationPhase, string) {
	switch decision := fc.Spec.Borrowing; {
	case decision.Decision == v1alpha1.PeeringRefuse && slices.ContainsFunc(nodes, madeFrom(offer)):
		// It is refused when its virtual nodes are gone.
		return offer.Status.Phase, "The virtual nodes are being removed."
	case decision.Decision == v1alpha1.PeeringRefuse:
		return v1alpha1.NegotiationRefused, negotiation.WithReason("The consumer's administrator refuses", decision.Reason)
	case decision.Decision == v1alpha1.PeeringAccept:
		return v1alpha1.NegotiationAccepted, negotiation.WithReason("The consumer's administrator accepts", decision.Reason)
	case negotiation.Undecided(&decision, r.autoAccept) && offer.Status.Phase != v1alpha1.NegotiationAccepted:
		return v1alpha1.NegotiationManualActionRequired, fmt.Sprintf(
			"An administrator of the consumer has to decide: set spec.borrowing.decision of ForeignCluster %s to Accept or Refuse.", fc.Name)
	}
	return v1alpha1.NegotiationAccepted, "The offer is accepted."
}

func (r *consumer) removeNodes(ctx context.Context, nodes []*v1alpha1.VirtualNode) error {
	for _, node := range nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		if err := r.removeNode(ctx, node); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove virtual node %s: %w", node.Name, err)
		}
	}
	return nil
}

func (r *consumer) answer(ctx context.Context, offer *v1alpha1.ResourceOffer, phase v1alpha1.NegotiationPhase, message string) error {
	if phase == "" {
		return nil
	}
	answered := offer.DeepCopy()
	answered.Status.Phase = phase
	answered.Status.ObservedGeneration = offer.Generation
	meta.SetStatusCondition(&answered.Status.Conditions, negotiation.Accepted(phase, message, offer.Generation))
	if _, err := r.commitOffer(ctx, offer, answered); err != nil {
		return fmt.Errorf("answer offer %s: %w", offer.Name, err)
	}
	return nil
}

func madeFrom(offer *v1alpha1.ResourceOffer) func(*v1alpha1.VirtualNode) bool {
	return func(node *v1alpha1.VirtualNode) bool { return node.Spec.OfferName == offer.Name }
}
