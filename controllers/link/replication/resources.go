// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

const (
	// maxOffers is the maximum number of ResourceOffers of one provider that are replicated.
	maxOffers = 16
	// tooManyRetry is the time after which an offer is reconciled again that exceeds maxOffers.
	tooManyRetry = time.Minute
)

// ReasonUnknownPhase of the condition Accepted of a ResourceRequest means that the provider answered with a
// phase that the consumer's version does not support. Upgrade the consumer.
const ReasonUnknownPhase = "UnknownPhase"

// requestPairs replicates the ResourceRequest to the provider.
type requestPairs struct{ *Replicator }

func (requestPairs) title() string                      { return "resource request" }
func (requestPairs) object() client.Object              { return &v1alpha1.ResourceRequest{} }
func (requestPairs) empty() *v1alpha1.ResourceRequest   { return &v1alpha1.ResourceRequest{} }
func (r requestPairs) concerned(object string) []string { return r.ownName(object) }

func (r requestPairs) local(context.Context, string) ([]string, error) {
	return []string{r.ClusterName}, nil
}

func (requestPairs) connected(_ context.Context, peer *remote.Peer) cache.SharedIndexInformer {
	return peer.Informers.Federation().V1alpha1().ResourceRequests().Informer()
}

func (r requestPairs) replicate(
	ctx context.Context, key types.NamespacedName, peer *remote.Peer, _ watcher,
) (time.Duration, error) {
	requests := peer.Informers.Federation().V1alpha1().ResourceRequests()
	if !requests.Informer().HasSynced() {
		return syncRetry, nil
	}
	remote := remoteSide[*v1alpha1.ResourceRequest]{
		lister: requests.Lister().ResourceRequests(peer.Namespace),
		writer: peer.Federation.FederationV1alpha1().ResourceRequests(peer.Namespace),
	}
	return 0, replicatePair(ctx, r, key.Name, localSideOf(r.Replicator, key, r.empty()), remote)
}

func (requestPairs) parts(
	r *v1alpha1.ResourceRequest,
) (*v1alpha1.ResourceRequestSpec, *v1alpha1.ResourceRequestStatus) {
	return &r.Spec, &r.Status
}

func (requestPairs) observed(s *v1alpha1.ResourceRequestStatus) *int64 { return &s.ObservedGeneration }

func (requestPairs) conditions(s *v1alpha1.ResourceRequestStatus) []metav1.Condition {
	return s.Conditions
}

func (requestPairs) validate(*v1alpha1.ResourceRequestSpec) error { return nil }
func (requestPairs) complete(*v1alpha1.ResourceRequestSpec)       {}

func (requestPairs) clean(s *v1alpha1.ResourceRequestStatus) {
	s.Conditions = cleanConditions(s.Conditions)
	if len(validation.IsDNS1123Subdomain(s.OfferName)) > 0 {
		s.OfferName = ""
	}
	s.APIVersions = cleanNames(s.APIVersions, validation.IsDNS1123Label)
	s.Features = cleanNames(s.Features, func(name string) []string { return validation.IsQualifiedName(name) })
	if !supportedPhase(s.Phase) {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionAccepted)
		s.Conditions = s.Conditions[:min(len(s.Conditions), maxConditions-1)]
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionUnknown, Reason: ReasonUnknownPhase,
			LastTransitionTime: metav1.Unix(0, 0),
			Message: fmt.Sprintf("The provider answered with the phase %q, which this version does not support: "+
				"upgrade this cluster.", remote.Text(string(s.Phase))),
		})
		s.Phase = v1alpha1.NegotiationPending
	}
	s.ObservedGeneration = max(s.ObservedGeneration, 0)
}

// mapPairs replicates the NamespaceMap to the provider.
type mapPairs struct{ *Replicator }

func (mapPairs) title() string                      { return "namespace map" }
func (mapPairs) object() client.Object              { return &v1alpha1.NamespaceMap{} }
func (mapPairs) empty() *v1alpha1.NamespaceMap      { return &v1alpha1.NamespaceMap{} }
func (m mapPairs) concerned(object string) []string { return m.ownName(object) }

func (m mapPairs) local(context.Context, string) ([]string, error) {
	return []string{m.ClusterName}, nil
}

func (mapPairs) connected(_ context.Context, peer *remote.Peer) cache.SharedIndexInformer {
	return peer.Informers.Federation().V1alpha1().NamespaceMaps().Informer()
}

func (m mapPairs) replicate(
	ctx context.Context, key types.NamespacedName, peer *remote.Peer, _ watcher,
) (time.Duration, error) {
	maps := peer.Informers.Federation().V1alpha1().NamespaceMaps()
	if !maps.Informer().HasSynced() {
		return syncRetry, nil
	}
	if leaving, err := m.leaving(ctx, key.Namespace); leaving || err != nil {
		return 0, err
	}
	remote := remoteSide[*v1alpha1.NamespaceMap]{
		lister: maps.Lister().NamespaceMaps(peer.Namespace),
		writer: peer.Federation.FederationV1alpha1().NamespaceMaps(peer.Namespace),
	}
	return 0, replicatePair(ctx, m, key.Name, localSideOf(m.Replicator, key, m.empty()), remote)
}

func (mapPairs) parts(m *v1alpha1.NamespaceMap) (*v1alpha1.NamespaceMapSpec, *v1alpha1.NamespaceMapStatus) {
	return &m.Spec, &m.Status
}

func (mapPairs) observed(s *v1alpha1.NamespaceMapStatus) *int64             { return &s.ObservedGeneration }
func (mapPairs) conditions(*v1alpha1.NamespaceMapStatus) []metav1.Condition { return nil }
func (mapPairs) validate(*v1alpha1.NamespaceMapSpec) error                  { return nil }
func (mapPairs) complete(*v1alpha1.NamespaceMapSpec)                        {}

func (mapPairs) clean(s *v1alpha1.NamespaceMapStatus) {
	if len(s.Namespaces) > maxNamespaces {
		s.Namespaces = s.Namespaces[:maxNamespaces]
	}
	s.Namespaces = cleanMappings(s.Namespaces)
	s.ObservedGeneration = max(s.ObservedGeneration, 0)
}

// offerPairs replicates ResourceOffers from the provider.
type offerPairs struct{ *Replicator }

func (offerPairs) title() string                    { return "resource offer" }
func (offerPairs) object() client.Object            { return &v1alpha1.ResourceOffer{} }
func (offerPairs) empty() *v1alpha1.ResourceOffer   { return &v1alpha1.ResourceOffer{} }
func (offerPairs) concerned(object string) []string { return []string{object} }

func (o offerPairs) local(ctx context.Context, namespace string) ([]string, error) {
	var mirrored v1alpha1.ResourceOfferList
	if err := o.Client.List(ctx, &mirrored, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the resource offers in %s: %w", namespace, err)
	}
	var names []string
	for i := range mirrored.Items {
		names = append(names, mirrored.Items[i].Name)
	}
	return names, nil
}

func (offerPairs) connected(_ context.Context, peer *remote.Peer) cache.SharedIndexInformer {
	return peer.Informers.Federation().V1alpha1().ResourceOffers().Informer()
}

// replicate implements pairs. It does not copy a new offer while the provider has more than maxOffers.
func (o offerPairs) replicate(
	ctx context.Context, key types.NamespacedName, peer *remote.Peer, _ watcher,
) (time.Duration, error) {
	informer := peer.Informers.Federation().V1alpha1().ResourceOffers()
	if !informer.Informer().HasSynced() {
		return syncRetry, nil
	}
	offers := informer.Lister().ResourceOffers(peer.Namespace)
	mirror := localSideOf(o.Replicator, key, o.empty())
	if _, err := mirror.get(ctx, key.Name); apierrors.IsNotFound(err) {
		tooMany, err := o.tooMany(ctx, key.Namespace, offers)
		if tooMany || err != nil {
			return tooManyRetry, err
		}
	}
	original := remoteSide[*v1alpha1.ResourceOffer]{
		lister: offers, writer: peer.Federation.FederationV1alpha1().ResourceOffers(peer.Namespace),
	}
	return 0, replicatePair(ctx, o, key.Name, original, mirror)
}

// tooMany reports whether the provider with a peer namespace has more than maxOffers. Its result may be a second old if
// it was true, because each of thousands of offers would be compared with all of them.
func (o offerPairs) tooMany(
	ctx context.Context, namespace string, offers lister[*v1alpha1.ResourceOffer],
) (bool, error) {
	if o.pace.isCrowded(namespace) {
		return true, nil
	}
	all, err := offers.List(labels.Everything())
	if err != nil || len(all) <= maxOffers {
		return false, err
	}
	o.pace.crowd(namespace)
	// A provider with thousands of offers must not fill the log.
	if o.pace.mayReport(namespace) {
		klog.FromContext(ctx).Info("A provider has too many offers, new ones are not copied",
			"offers", len(all), "max", maxOffers)
	}
	return true, nil
}

func (offerPairs) parts(o *v1alpha1.ResourceOffer) (*v1alpha1.ResourceOfferSpec, *v1alpha1.ResourceOfferStatus) {
	return &o.Spec, &o.Status
}

func (offerPairs) observed(s *v1alpha1.ResourceOfferStatus) *int64 { return &s.ObservedGeneration }

func (offerPairs) conditions(s *v1alpha1.ResourceOfferStatus) []metav1.Condition {
	return s.Conditions
}

func (offerPairs) validate(spec *v1alpha1.ResourceOfferSpec) error { return boundedSpec(spec) }
func (offerPairs) complete(*v1alpha1.ResourceOfferSpec)            {}
func (offerPairs) clean(*v1alpha1.ResourceOfferStatus)             {}

// localSideOf returns the local side of a pair. like is an empty object of its kind.
func localSideOf[T client.Object](r *Replicator, key types.NamespacedName, like T) localSide[T] {
	return localSide[T]{client: r.Client, namespace: key.Namespace, like: like, pace: &r.pace}
}

// ownName returns the name of an object if it is the name of this cluster, otherwise nothing.
func (r *Replicator) ownName(object string) []string {
	if object != r.ClusterName {
		return nil
	}
	return []string{object}
}

// request returns the ResourceRequest in a peer namespace; nil if there is none.
func (r *Replicator) request(ctx context.Context, namespace string) (*v1alpha1.ResourceRequest, error) {
	request := &v1alpha1.ResourceRequest{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.ClusterName}, request)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return request, err
}

// leaving reports whether the peering is being torn down. Objects that the provider deletes during the
// teardown are not created again.
func (r *Replicator) leaving(ctx context.Context, namespace string) (bool, error) {
	request, err := r.request(ctx, namespace)
	return err == nil && (request == nil || request.Spec.Withdrawn), err
}
