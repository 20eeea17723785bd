// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/controllers/kit"
)

// Reconcile offers resources to one consumer, and answers its resource request.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, request.NamespacedName, fc)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return kit.Result(r.reconcile(ctx, fc))
}

func (r *Reconciler) reconcile(ctx context.Context, fc *v1alpha1.ForeignCluster) (time.Duration, error) {
	namespace := naming.TenantNamespace(fc.Name)
	var list v1alpha1.ResourceRequestList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return 0, err
	}
	offers, err := r.offers(ctx, namespace)
	if err != nil {
		return 0, err
	}
	// The newest resource request counts: a consumer that was renamed creates one with its new name.
	requests := kit.Pointers(list.Items)
	slices.SortFunc(requests, func(a, b *v1alpha1.ResourceRequest) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	enabled := fc.DeletionTimestamp == nil && fc.Spec.Incoming == v1alpha1.PeeringEnabled
	if len(requests) == 0 || requests[0].Spec.Withdrawn || !enabled {
		return 0, r.withdraw(ctx, offers)
	}
	if fc.Status.TenantNamespace == "" {
		return 0, nil
	}
	for _, another := range requests[1:] {
		message := "Only the newest resource request of a consumer is answered: " + requests[0].Name + "."
		if err := r.answer(ctx, another, v1alpha1.NegotiationRefused, "", message); err != nil {
			return 0, err
		}
	}
	if refusal := refused(fc, requests[0]); refusal != "" {
		if err := r.withdraw(ctx, offers); err != nil {
			return 0, err
		}
		return 0, r.answer(ctx, requests[0], v1alpha1.NegotiationRefused, "", refusal)
	}
	var again time.Duration
	if len(r.Policy.ReflectedKinds) > 0 {
		again = kit.ServedKindsInterval
	}
	return again, r.negotiate(ctx, fc, requests[0], offers)
}

// offers returns the offers in a tenant namespace, sorted by name.
func (r *Reconciler) offers(ctx context.Context, namespace string) ([]*v1alpha1.ResourceOffer, error) {
	var list v1alpha1.ResourceOfferList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	offers := kit.Pointers(list.Items)
	slices.SortFunc(offers, func(a, b *v1alpha1.ResourceOffer) int { return cmp.Compare(a.Name, b.Name) })
	return offers, nil
}

// refused returns the reason why a resource request is refused; empty if it is not.
func refused(fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest) string {
	if _, ok := compatibility.CommonVersion(request.Spec.APIVersions); !ok {
		return compatibility.VersionsDiffer(request.Spec.APIVersions)
	}
	if fc.Spec.IncomingPolicy.Decision == v1alpha1.PeeringRefuse {
		return negotiation.WithReason("The provider's administrator refuses the request", fc.Spec.IncomingPolicy.Reason)
	}
	return ""
}

// withdraw sets spec.withdrawn of all offers that are not being deleted.
func (r *Reconciler) withdraw(ctx context.Context, offers []*v1alpha1.ResourceOffer) error {
	for _, offer := range offers {
		if offer.DeletionTimestamp != nil {
			continue
		}
		withdrawn := offer.DeepCopy()
		withdrawn.Spec.Withdrawn = true
		if _, err := kit.Commit(ctx, r.Client, offer, withdrawn); err != nil {
			return fmt.Errorf("withdrawing an offer: %w", err)
		}
	}
	return nil
}

// negotiate creates or updates the offer of this controller, and answers the resource request. It does
// not change offers that administrators created.
func (r *Reconciler) negotiate(
	ctx context.Context, fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest, offers []*v1alpha1.ResourceOffer,
) error {
	own, others := separate(offers)
	if negotiation.Undecided(&fc.Spec.IncomingPolicy.PeeringAnswer, r.Policy.AutoAccept) {
		return r.wait(ctx, fc, request, own, others)
	}
	wanted, reason, err := r.offerable(ctx, fc, request, own)
	if err != nil {
		return err
	}
	if wanted == nil {
		return r.answer(ctx, request, v1alpha1.NegotiationPending, "", reason+stillOpen(fc, others))
	}
	notOffered, err := r.withoutMissingClasses(ctx, &wanted.Spec)
	if err != nil {
		return err
	}
	if own == nil {
		wanted.Name = r.offerName(others)
		if err := r.Client.Create(ctx, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating an offer in namespace %s: %w", wanted.Namespace, err)
		}
	} else if err := r.change(ctx, fc, own, wanted); err != nil {
		return err
	}
	message := "The provider's policy allows the request."
	if fc.Spec.IncomingPolicy.Decision == v1alpha1.PeeringAccept {
		message = negotiation.WithReason("The provider's administrator accepts the request", fc.Spec.IncomingPolicy.Reason)
	}
	return r.answer(ctx, request, v1alpha1.NegotiationAccepted, wanted.Name, message+notOffered+stillOpen(fc, others))
}

// offerable returns the offer that the policy allows, or nil and the reason why it allows none. If own, the
// existing offer, is not nil, the returned offer is a changed copy of it, with the same name even if this
// cluster was renamed. The resources change only if one of them changes by at least Policy.ChangePercent, or
// exceeds a limit.
func (r *Reconciler) offerable(
	ctx context.Context, fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest, own *v1alpha1.ResourceOffer,
) (*v1alpha1.ResourceOffer, string, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", err
	}
	offer := &v1alpha1.ResourceOffer{}
	offer.Namespace, offer.Labels = request.Namespace, map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	if own != nil {
		var err error
		if offer, err = refilled(own); err != nil {
			return nil, "", err
		}
	}
	before, percent := offer.Spec, r.Policy.ChangePercent
	terms := r.Policy.terms(&fc.Spec.IncomingPolicy, request.Spec.Resources)
	resources, offered := share(kit.Pointers(nodes.Items), terms, fc.Spec.ClusterID, before)
	reason := "No shared node of the provider is schedulable at the moment."
	if fc.Spec.Cordoned {
		resources, offered, reason = before.Resources, before.Nodes, cordonedMessage
	}
	if len(resources) == 0 {
		return nil, reason, nil
	}
	if own != nil && !resourcesDiffer(before.Resources, resources, terms.most, percent) &&
		!nodesDiffer(before.Nodes, offered, percent) {
		resources, offered = before.Resources, before.Nodes
	}
	offer.Spec = r.spec(fc, resources)
	r.Policy.offerStorage(&offer.Spec, &fc.Spec.IncomingPolicy, terms.most)
	offer.Spec.Nodes = offered
	offer.Spec.ReflectedKinds = r.servedKinds(ctx, before.ReflectedKinds)
	return offer, "", nil
}

// wait answers a resource request that waits for the decision of an administrator. It changes an existing offer
// of this controller only if the consumer was cordoned or uncordoned.
func (r *Reconciler) wait(
	ctx context.Context, fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest,
	own *v1alpha1.ResourceOffer, others []*v1alpha1.ResourceOffer,
) error {
	if own != nil {
		changed, err := refilled(own)
		if err != nil {
			return err
		}
		if err := r.change(ctx, fc, own, changed); err != nil {
			return err
		}
		others = append([]*v1alpha1.ResourceOffer{own}, others...)
	}
	if len(others) == 0 {
		return r.answer(ctx, request, v1alpha1.NegotiationManualActionRequired, "", fmt.Sprintf(
			"The resource request waits for a decision of the provider's administrator: set spec.incomingPolicy.decision "+
				"of ForeignCluster %s to Accept or Refuse, or create a ResourceOffer in namespace %s.", fc.Name, request.Namespace))
	}
	standing := slices.IndexFunc(others, func(offer *v1alpha1.ResourceOffer) bool { return !offer.Spec.Withdrawn })
	if standing < 0 {
		message := "The provider's administrator withdrew the offer."
		return r.answer(ctx, request, v1alpha1.NegotiationRefused, others[0].Name, message)
	}
	message := "An administrator made an offer."
	if fc.Spec.Cordoned && others[standing] == own {
		message = cordonedMessage
	}
	return r.answer(ctx, request, v1alpha1.NegotiationAccepted, others[standing].Name, message+stillOpen(fc, others))
}
