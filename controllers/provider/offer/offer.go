// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// cordonedMessage is the message in the answer to a cordoned consumer.
const cordonedMessage = "The provider's administrator cordoned the consumer: nothing new is offered at the moment."

// separate returns the offer that this controller created, or nil, and the offers that administrators created. It
// omits offers that are being deleted.
func separate(offers []*v1alpha1.ResourceOffer) (own *v1alpha1.ResourceOffer, others []*v1alpha1.ResourceOffer) {
	for _, offer := range offers {
		switch {
		case offer.DeletionTimestamp != nil:
		case own == nil && isOwn(offer):
			own = offer
		default:
			others = append(others, offer)
		}
	}
	return own, others
}

func isOwn(offer *v1alpha1.ResourceOffer) bool {
	return offer.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// offerName returns the name of a new offer: the name of this cluster, followed by a number if
// an administrator's offer has the same name.
func (r *Reconciler) offerName(others []*v1alpha1.ResourceOffer) string {
	name := r.ClusterName
	isTaken := func(offer *v1alpha1.ResourceOffer) bool { return offer.Name == name }
	for number := 2; slices.ContainsFunc(others, isTaken); number++ {
		name = fmt.Sprintf("%s-%d", r.ClusterName, number)
	}
	return name
}

// stillOpen returns a sentence that names the offers of administrators that still admit new pods although
// the consumer is cordoned; empty if there are none.
func stillOpen(fc *v1alpha1.ForeignCluster, others []*v1alpha1.ResourceOffer) string {
	var open []string
	for _, offer := range others {
		if !offer.Spec.Withdrawn && !isOwn(offer) {
			open = append(open, offer.Name)
		}
	}
	if !fc.Spec.Cordoned || len(open) == 0 {
		return ""
	}
	return " Offers that an administrator created still admit new pods although the consumer is cordoned: " +
		strings.Join(open, ", ") + "."
}

// contents has the fields of an offer whose quantities are zero, or which are empty, while its consumer is cordoned.
type contents struct {
	Resources corev1.ResourceList    `json:"resources"`
	Nodes     []v1alpha1.OfferedNode `json:"nodes,omitempty"`
	Storage   corev1.ResourceList    `json:"storage,omitempty"`
}

// refilled returns a copy of an offer with the contents that its annotation keeps during a cordon. It
// fails if the annotation is invalid.
func refilled(offer *v1alpha1.ResourceOffer) (*v1alpha1.ResourceOffer, error) {
	refilled := offer.DeepCopy()
	kept, ok := offer.Annotations[v1alpha1.AnnotationCordoned]
	if !ok {
		return refilled, nil
	}
	var before contents
	if err := json.Unmarshal([]byte(kept), &before); err != nil {
		return nil, fmt.Errorf("reading annotation %s of offer %s: %w", v1alpha1.AnnotationCordoned, offer.Name, err)
	}
	delete(refilled.Annotations, v1alpha1.AnnotationCordoned)
	refilled.Spec.Resources, refilled.Spec.Nodes, refilled.Spec.Storage = before.Resources, before.Nodes, before.Storage
	return refilled, nil
}

// change updates an offer. While the consumer is cordoned, the contents are moved to an annotation.
func (r *Reconciler) change(
	ctx context.Context, fc *v1alpha1.ForeignCluster, old, wanted *v1alpha1.ResourceOffer,
) error {
	if fc.Spec.Cordoned {
		kept, err := json.Marshal(contents{wanted.Spec.Resources, wanted.Spec.Nodes, wanted.Spec.Storage})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, v1alpha1.AnnotationCordoned, string(kept))
		wanted.Spec.Resources, wanted.Spec.Nodes = nothingOf(wanted.Spec.Resources), nothingOn(wanted.Spec.Nodes)
		wanted.Spec.Storage = nil
	}
	if _, err := kit.Commit(ctx, r.Client, old, wanted); err != nil {
		return fmt.Errorf("changing the offer in namespace %s: %w", old.Namespace, err)
	}
	return nil
}

// spec returns the spec of an offer with these resources. Its other fields come from the policy, which
// the ForeignCluster overrides.
func (r *Reconciler) spec(fc *v1alpha1.ForeignCluster, resources corev1.ResourceList) v1alpha1.ResourceOfferSpec {
	incoming := &fc.Spec.IncomingPolicy
	return v1alpha1.ResourceOfferSpec{
		ClusterID:           r.ClusterID,
		Resources:           resources,
		Labels:              merged(r.Policy.ClusterLabels, incoming.Labels),
		IngressClasses:      firstNonEmpty(incoming.IngressClasses, r.Policy.IngressClasses),
		LoadBalancerClasses: firstNonEmpty(incoming.LoadBalancerClasses, r.Policy.LoadBalancerClasses),
		ExternalVolumes:     r.Policy.externalVolumes(incoming),
		Pods:                r.Policy.PodLimits(fc),
	}
}

// merged returns the labels of both maps; on a conflict, the value in second.
func merged(first, second map[string]string) map[string]string {
	if len(first)+len(second) == 0 {
		return nil
	}
	both := map[string]string{}
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// firstNonEmpty returns a copy of the first list that is not empty.
func firstNonEmpty(lists ...[]string) []string {
	for _, list := range lists {
		if len(list) > 0 {
			return slices.Clone(list)
		}
	}
	return nil
}

// servedKinds returns the kinds of the policy that this cluster serves and that are namespaced. If
// discovery fails, it keeps a kind that was offered before, because the consumer would delete all
// reflected objects of a kind that is no longer offered.
func (r *Reconciler) servedKinds(
	ctx context.Context, before []metav1.GroupVersionResource,
) []metav1.GroupVersionResource {
	var result []metav1.GroupVersionResource
	for _, kind := range r.Policy.Kinds() {
		served, err := r.Kinds.Find(ctx, kind)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Discovery of a kind to offer failed", "kind", reflection.KindName(kind))
		}
		if err != nil && slices.Contains(before, kind) || err == nil && served != nil && served.Namespaced {
			result = append(result, kind)
		}
	}
	return result
}
