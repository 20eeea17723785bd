// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// provider answers the requests of consumers with what the policy allows.
type provider struct {
	clusterID, clusterName string
	policy                 Policy

	foreignCluster func(name string) (*v1alpha1.ForeignCluster, error)
	requests       func(namespace string) ([]*v1alpha1.ResourceRequest, error)
	offers         func(namespace string) ([]*v1alpha1.ResourceOffer, error)
	nodes          func() ([]*corev1.Node, error)
	// served tells how this cluster serves a kind; nil if it does not.
	served func(ctx context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error)
	// hasClass reports whether this cluster has a StorageClass.
	hasClass func(name string) (bool, error)
	// used is what a consumer's shadow pods take, and stored what its ShadowVolumeClaims take.
	used, stored  func(foreignCluster string) (corev1.ResourceList, error)
	createOffer   func(ctx context.Context, offer *v1alpha1.ResourceOffer) error
	commitOffer   func(ctx context.Context, old, wanted *v1alpha1.ResourceOffer) (bool, error)
	commitRequest func(ctx context.Context, old, wanted *v1alpha1.ResourceRequest) (bool, error)
}

func (r *provider) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	fc, err := r.foreignCluster(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	namespace := naming.TenantNamespace(fc.Name)
	requests, err := r.requests(namespace)
	if err != nil {
		return 0, err
	}
	offers, err := r.offers(namespace)
	if err != nil {
		return 0, err
	}
	lending := fc.DeletionTimestamp == nil && fc.Spec.Incoming == v1alpha1.PeeringEnabled
	// The newest first: a consumer that was renamed asks under its new name.
	slices.SortFunc(requests, func(a, b *v1alpha1.ResourceRequest) int {
		if order := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(offers, func(a, b *v1alpha1.ResourceOffer) int { return strings.Compare(a.Name, b.Name) })
	if len(requests) == 0 || requests[0].Spec.Withdrawn || !lending {
		return 0, r.withdraw(ctx, offers)
	}
	if fc.Status.TenantNamespace == "" {
		return 0, nil
	}
	for _, another := range requests[1:] {
		if err := r.answer(ctx, another, v1alpha1.NegotiationRefused, "", "One request of a consumer is answered: "+requests[0].Name+"."); err != nil {
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
	if len(r.policy.ReflectedKinds) > 0 {
		again = kit.ServedKindsInterval
	}
	return again, r.negotiate(ctx, fc, requests[0], offers)
}

// withinGrant sets the condition WithinGrant, if the consumer uses more than it is granted,
// as after the offer was lowered, and once it did.
func (r *provider) withinGrant(request *v1alpha1.ResourceRequest) error {
	offers, err := r.offers(request.Namespace)
	if err != nil {
		return err
	}
	used, err := r.used(naming.ForeignClusterOf(request.Namespace))
	if err != nil {
		return err
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionWithinGrant, Status: metav1.ConditionTrue, Reason: "Enough", ObservedGeneration: request.Generation,
		Message: "What is used is within what is granted.",
	}
	stored, err := r.stored(naming.ForeignClusterOf(request.Namespace))
	if err != nil {
		return err
	}
	storage, _ := quota.StorageGranted(offers)
	if over := append(quota.Exceeded(quota.Granted(offers), used), quota.StorageExceeded(storage, stored)...); len(over) > 0 {
		names := make([]string, len(over))
		for i, short := range over {
			names[i] = string(short.Resource)
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, "GrantLowered"
		condition.Message = "More is used than is granted of " + strings.Join(names, ", ") +
			". Nothing is ended or deleted, and nothing more of it is admitted."
	} else if meta.FindStatusCondition(request.Status.Conditions, condition.Type) == nil {
		return nil
	}
	meta.SetStatusCondition(&request.Status.Conditions, condition)
	return nil
}

// refused says why a request is answered with a no, and nothing if it is not.
func refused(fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest) string {
	if _, ok := compatibility.CommonVersion(request.Spec.APIVersions); !ok {
		return compatibility.VersionsDiffer(request.Spec.APIVersions)
	}
	if fc.Spec.Lending.Decision == v1alpha1.PeeringRefuse {
		return negotiation.WithReason("The provider's administrator refuses", fc.Spec.Lending.Reason)
	}
	return ""
}

// withdraw takes back what was offered.
func (r *provider) withdraw(ctx context.Context, offers []*v1alpha1.ResourceOffer) error {
	for _, offer := range offers {
		if offer.DeletionTimestamp != nil {
			continue
		}
		withdrawn := offer.DeepCopy()
		withdrawn.Spec.Withdrawn = true
		if _, err := r.commitOffer(ctx, offer, withdrawn); err != nil {
			return fmt.Errorf("withdraw an offer: %w", err)
		}
	}
	return nil
}

// negotiate answers a request with the offer that this controller makes. Those
// that an administrator made stand beside it, and are theirs to change.
func (r *provider) negotiate(ctx context.Context, fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest, offers []*v1alpha1.ResourceOffer) error {
	own, theirs := apart(offers)
	if negotiation.Undecided(&fc.Spec.Lending.PeeringAnswer, r.policy.AutoAccept) {
		return r.wait(ctx, fc, request, own, theirs)
	}
	nodes, err := r.nodes()
	if err != nil {
		return err
	}
	namespace := naming.TenantNamespace(fc.Name)
	name, changed := r.nameOffer(theirs), &v1alpha1.ResourceOffer{}
	if own != nil {
		// An offer keeps its name, also when this cluster gets another one.
		name = own.Name
		if changed, err = refilled(own); err != nil {
			return err
		}
	}
	before := changed.Spec
	terms := r.policy.terms(&fc.Spec.Lending, request.Spec.Resources)
	resources, offered := r.share(nodes, terms, fc.Spec.ClusterID, before)
	why := "No node that the provider shares takes work at the moment."
	if fc.Spec.Cordoned {
		resources, offered = before.Resources, before.Nodes
		why = nothingNew
	}
	if len(resources) == 0 {
		return r.answer(ctx, request, v1alpha1.NegotiationPending, "", why+stillOpen(fc, theirs))
	}
	wanted := r.spec(&fc.Spec.Lending, resources)
	r.policy.offerStorage(&wanted, &fc.Spec.Lending, terms.most)
	notOffered, err := r.withoutMissingClasses(&wanted)
	if err != nil {
		return err
	}
	wanted.Nodes = offered
	wanted.ReflectedKinds = r.kinds(ctx, before.ReflectedKinds)
	if own == nil {
		offer := &v1alpha1.ResourceOffer{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			},
			Spec: wanted,
		}
		if err := r.createOffer(ctx, offer); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make an offer in namespace %s: %w", namespace, err)
		}
	} else {
		if !Moved(before.Resources, wanted.Resources, terms.most, r.policy.ChangePercent) && !nodesMoved(before.Nodes, wanted.Nodes, r.policy.ChangePercent) {
			wanted.Resources, wanted.Nodes = before.Resources, before.Nodes
		}
		changed.Spec = wanted
		if err := r.changeOffer(ctx, fc, own, changed); err != nil {
			return err
		}
	}
	message := "The provider's policy allows it."
	if fc.Spec.Lending.Decision == v1alpha1.PeeringAccept {
		message = negotiation.WithReason("The provider's administrator accepts", fc.Spec.Lending.Reason)
	}
	return r.answer(ctx, request, v1alpha1.NegotiationAccepted, name, message+notOffered+stillOpen(fc, theirs))
}

// wait leaves the decision to an administrator. An offer of this controller that
// is there already, as from before, stands as it is, but for what a cordon takes
// out of it.
func (r *provider) wait(ctx context.Context, fc *v1alpha1.ForeignCluster, request *v1alpha1.ResourceRequest, own *v1alpha1.ResourceOffer, theirs []*v1alpha1.ResourceOffer) error {
	if own != nil {
		changed, err := refilled(own)
		if err != nil {
			return err
		}
		if err := r.changeOffer(ctx, fc, own, changed); err != nil {
			return err
		}
		theirs = append([]*v1alpha1.ResourceOffer{own}, theirs...)
	}
	if len(theirs) == 0 {
		return r.answer(ctx, request, v1alpha1.NegotiationManualActionRequired, "", fmt.Sprintf(
			"An administrator of the provider has to decide: set spec.lending.decision of ForeignCluster %s to Accept or Refuse, or create a ResourceOffer in namespace %s.", fc.Name, request.Namespace))
	}
	standing := slices.IndexFunc(theirs, func(offer *v1alpha1.ResourceOffer) bool { return !offer.Spec.Withdrawn })
	if standing < 0 {
		return r.answer(ctx, request, v1alpha1.NegotiationRefused, theirs[0].Name, "The provider's administrator took the offer back.")
	}
	message := "An administrator made an offer."
	if fc.Spec.Cordoned && theirs[standing] == own {
		message = nothingNew
	}
	return r.answer(ctx, request, v1alpha1.NegotiationAccepted, theirs[standing].Name, message+stillOpen(fc, theirs))
}

// nothingNew is what a consumer that is cordoned is told.
const nothingNew = "The provider's administrator lets nothing new in at the moment."

// apart tells the offer that this controller makes, nil if there is none, from
// those that an administrator made.
func apart(offers []*v1alpha1.ResourceOffer) (own *v1alpha1.ResourceOffer, theirs []*v1alpha1.ResourceOffer) {
	for _, offer := range offers {
		switch {
		case offer.DeletionTimestamp != nil:
		case own == nil && isOwn(offer):
			own = offer
		default:
			theirs = append(theirs, offer)
		}
	}
	return own, theirs
}

func isOwn(offer *v1alpha1.ResourceOffer) bool {
	return offer.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// nameOffer names a new offer after this cluster, and after a number as well
// where an administrator made one of that name.
func (r *provider) nameOffer(theirs []*v1alpha1.ResourceOffer) string {
	name := r.clusterName
	for number := 2; slices.ContainsFunc(theirs, func(offer *v1alpha1.ResourceOffer) bool { return offer.Name == name }); number++ {
		name = fmt.Sprintf("%s-%d", r.clusterName, number)
	}
	return name
}

// stillOpen says which offers of an administrator let new pods in although the
// consumer is cordoned.
func stillOpen(fc *v1alpha1.ForeignCluster, theirs []*v1alpha1.ResourceOffer) string {
	var open []string
	for _, offer := range theirs {
		if !offer.Spec.Withdrawn && !isOwn(offer) {
			open = append(open, offer.Name)
		}
	}
	if !fc.Spec.Cordoned || len(open) == 0 {
		return ""
	}
	return " What an administrator offered stays open although the consumer is cordoned: " + strings.Join(open, ", ") + "."
}

// full is what an offer holds when its consumer is not cordoned.
type full struct {
	Resources corev1.ResourceList    `json:"resources"`
	Nodes     []v1alpha1.OfferedNode `json:"nodes,omitempty"`
	Storage   corev1.ResourceList    `json:"storage,omitempty"`
}

// refilled is a copy of an offer with what it had before a cordon.
func refilled(offer *v1alpha1.ResourceOffer) (*v1alpha1.ResourceOffer, error) {
	refilled := offer.DeepCopy()
	kept, ok := offer.Annotations[v1alpha1.AnnotationCordoned]
	if !ok {
		return refilled, nil
	}
	var had full
	if err := json.Unmarshal([]byte(kept), &had); err != nil {
		return nil, fmt.Errorf("read annotation %s of offer %s: %w", v1alpha1.AnnotationCordoned, offer.Name, err)
	}
	delete(refilled.Annotations, v1alpha1.AnnotationCordoned)
	refilled.Spec.Resources, refilled.Spec.Nodes, refilled.Spec.Storage = had.Resources, had.Nodes, had.Storage
	return refilled, nil
}

// changeOffer writes what an offer is to be: with nothing in it, and a note of
// what it had, while the consumer is cordoned.
func (r *provider) changeOffer(ctx context.Context, fc *v1alpha1.ForeignCluster, old, wanted *v1alpha1.ResourceOffer) error {
	if fc.Spec.Cordoned {
		had, err := json.Marshal(full{wanted.Spec.Resources, wanted.Spec.Nodes, wanted.Spec.Storage})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, v1alpha1.AnnotationCordoned, string(had))
		wanted.Spec.Resources, wanted.Spec.Nodes = nothingOf(wanted.Spec.Resources), nothingOn(wanted.Spec.Nodes)
		wanted.Spec.Storage = nil
	}
	if _, err := r.commitOffer(ctx, old, wanted); err != nil {
		return fmt.Errorf("change the offer in namespace %s: %w", old.Namespace, err)
	}
	return nil
}

// share is how much could be offered: as a whole, or together with the nodes
// that have it. An offer that stands does so also with nothing in it: its pods
// run, and there is only nothing for others.
func (r *provider) share(nodes []*corev1.Node, terms terms, consumerID string, before v1alpha1.ResourceOfferSpec) (corev1.ResourceList, []v1alpha1.OfferedNode) {
	if terms.perNode {
		if offered := offerNodes(nodes, terms, consumerID, before.Nodes); len(offered) > 0 {
			return inAll(offered), offered
		}
		return nothingOf(before.Resources), nil
	}
	if resources := Offer(Allocatable(nodes, terms.nodeSelector), terms.percent, terms.most); len(resources) > 0 {
		return resources, nil
	}
	return nothingOf(before.Resources), nil
}

// spec is an offer as the policy has it, as far as the ForeignCluster does not
// say otherwise.
func (r *provider) spec(lending *v1alpha1.PeeringLending, resources corev1.ResourceList) v1alpha1.ResourceOfferSpec {
	return v1alpha1.ResourceOfferSpec{
		ClusterID:           r.clusterID,
		Resources:           resources,
		Labels:              joined(r.policy.Labels, lending.Labels),
		IngressClasses:      firstNamed(lending.IngressClasses, r.policy.IngressClasses),
		LoadBalancerClasses: firstNamed(lending.LoadBalancerClasses, r.policy.LoadBalancerClasses),
		ExternalVolumes:     r.policy.externalVolumes(lending),
	}
}

// joined are the labels of both, those of the second before those of the first.
func joined(first, second map[string]string) map[string]string {
	if len(first)+len(second) == 0 {
		return nil
	}
	both := map[string]string{}
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// firstNamed is a copy of the first list that names anything.
func firstNamed(lists ...[]string) []string {
	for _, list := range lists {
		if len(list) > 0 {
			return slices.Clone(list)
		}
	}
	return nil
}

// kinds are those that the policy admits and this cluster serves in namespaces.
// While it cannot say whether it serves one, that stays as it is: a consumer
// removes its copies of what is not offered any more.
func (r *provider) kinds(ctx context.Context, before []metav1.GroupVersionResource) []metav1.GroupVersionResource {
	var result []metav1.GroupVersionResource
	for _, kind := range r.policy.kinds() {
		served, err := r.served(ctx, kind)
		if err != nil {
			klog.FromContext(ctx).Error(err, "It is unknown whether a kind can be offered", "kind", reflection.KindName(kind))
		}
		if err != nil && slices.Contains(before, kind) || err == nil && served != nil && served.Namespaced {
			result = append(result, kind)
		}
	}
	return result
}

func (r *provider) answer(ctx context.Context, request *v1alpha1.ResourceRequest, phase v1alpha1.NegotiationPhase, offer, message string) error {
	answered := request.DeepCopy()
	answered.Status.Phase = phase
	answered.Status.ObservedGeneration = request.Generation
	answered.Status.OfferName = offer
	answered.Status.APIVersions, answered.Status.Features = compatibility.APIVersions(), compatibility.Features()
	meta.SetStatusCondition(&answered.Status.Conditions, negotiation.Accepted(phase, message, request.Generation))
	if err := r.withinGrant(answered); err != nil {
		return fmt.Errorf("compare what runs with what is granted: %w", err)
	}
	if _, err := r.commitRequest(ctx, request, answered); err != nil {
		return fmt.Errorf("answer request %s: %w", request.Name, err)
	}
	return nil
}
