// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	maxClasses = 64
	// maxCapabilities is the maximum number of API versions, and of features, that a peer reports.
	maxCapabilities = 32
	// maxConsumerMessage is the maximum length of a consumer's message to its provider, in characters.
	maxConsumerMessage = 1024
)

// ValidateResourceRequest validates a new resource request.
func ValidateResourceRequest(request *federation.ResourceRequest) field.ErrorList {
	errs := clusterMetadata(request, true)
	return append(errs, resourceRequestSpec(&request.Spec)...)
}

// ValidateResourceRequestUpdate validates an update of a resource request.
func ValidateResourceRequestUpdate(request, old *federation.ResourceRequest) field.ErrorList {
	errs := metadataUpdate(request, old)
	return append(errs, resourceRequestSpec(&request.Spec)...)
}

func resourceRequestSpec(spec *federation.ResourceRequestSpec) field.ErrorList {
	errs := resources(spec.Resources, specPath.Child("resources"))
	return append(errs, capabilities(spec.APIVersions, spec.Features, specPath)...)
}

// capabilities validates the API versions and features that a peer reports. Unknown names are
// valid, since the peer may have a newer version.
func capabilities(versions, features []string, path *field.Path) field.ErrorList {
	errs := uniqueNames(versions, maxCapabilities, path.Child("apiVersions"), dnsLabel)
	return append(errs, uniqueNames(features, maxCapabilities, path.Child("features"), qualifiedName)...)
}

// ValidateResourceRequestStatusUpdate validates an update of the status of a resource request.
func ValidateResourceRequestStatusUpdate(request, old *federation.ResourceRequest) field.ErrorList {
	status := &request.Status
	errs := metadataUpdate(request, old)
	errs = append(errs, negotiationPhase(status.Phase, statusPath.Child("phase"))...)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, optional(status.OfferName, statusPath.Child("offerName"), subdomain)...)
	errs = append(errs, capabilities(status.APIVersions, status.Features, statusPath)...)
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

// ValidateResourceOffer validates a new resource offer.
func ValidateResourceOffer(offer *federation.ResourceOffer) field.ErrorList {
	errs := clusterMetadata(offer, true)
	return append(errs, resourceOfferSpec(&offer.Spec)...)
}

// ValidateResourceOfferUpdate validates an update of a resource offer. spec.clusterID cannot
// change.
func ValidateResourceOfferUpdate(offer, old *federation.ResourceOffer) field.ErrorList {
	errs := metadataUpdate(offer, old)
	errs = append(errs, resourceOfferSpec(&offer.Spec)...)
	return append(errs, immutable(offer.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
}

// ValidateResourceOfferStatusUpdate validates an update of the status of a resource offer.
func ValidateResourceOfferStatusUpdate(offer, old *federation.ResourceOffer) field.ErrorList {
	errs := metadataUpdate(offer, old)
	errs = append(errs, negotiationPhase(offer.Status.Phase, statusPath.Child("phase"))...)
	errs = append(errs, notNegative(offer.Status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	return append(errs, consumerConditions(offer.Status.Conditions, statusPath.Child("conditions"))...)
}

// consumerConditions validates conditions that a consumer writes and that the administrator of the provider reads. With
// line breaks, kubectl describe would show text of the consumer as other fields of the object.
func consumerConditions(list []metav1.Condition, path *field.Path) field.ErrorList {
	errs := conditions(list, path)
	for i, condition := range list {
		at := path.Index(i).Child("message")
		if utf8.RuneCountInString(condition.Message) > maxConsumerMessage {
			errs = append(errs, field.TooLong(at, "", maxConsumerMessage))
		}
		if strings.ContainsAny(condition.Message, "\n\t") {
			errs = append(errs, field.Invalid(at, truncate(condition.Message), "must be one line"))
		}
	}
	return errs
}

func resourceOfferSpec(spec *federation.ResourceOfferSpec) field.ErrorList {
	errs := requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))
	errs = append(errs, requiredResources(spec.Resources, specPath.Child("resources"))...)
	errs = append(errs, notStorage(spec.Resources, specPath.Child("resources"))...)
	errs = append(errs, storageQuota(spec.Storage, storagePath)...)
	errs = append(errs, externalVolumes(&spec.ExternalVolumes, specPath.Child("externalVolumes"))...)
	if spec.Pods != nil {
		errs = append(errs, podPolicy(spec.Pods, specPath.Child("pods"))...)
	}
	errs = append(errs, offeredNodes(spec.Nodes, spec.Resources, specPath.Child("nodes"))...)
	errs = append(errs, offeredLabels(spec.Labels, specPath.Child("labels"))...)
	errs = append(errs, uniqueNames(spec.StorageClasses, maxClasses, specPath.Child("storageClasses"), subdomain)...)
	errs = append(errs, uniqueNames(spec.IngressClasses, maxClasses, specPath.Child("ingressClasses"), subdomain)...)
	errs = append(errs, uniqueNames(spec.LoadBalancerClasses, maxClasses,
		specPath.Child("loadBalancerClasses"), qualifiedName)...)
	return append(errs, ReflectedKinds(spec.ReflectedKinds, specPath.Child("reflectedKinds"))...)
}

// offeredNodes validates spec.nodes of an offer. The sum of the resources of the nodes must not
// exceed offered, the resources of the offer.
func offeredNodes(nodes []federation.OfferedNode, offered corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(nodes) > v1alpha1.MaxOfferedNodes {
		return field.ErrorList{field.TooMany(path, len(nodes), v1alpha1.MaxOfferedNodes)}
	}
	var errs field.ErrorList
	seen, sum := map[string]bool{}, corev1.ResourceList{}
	for i, node := range nodes {
		at := path.Index(i)
		errs = append(errs, dnsLabel(node.Name, at.Child("name"))...)
		if seen[node.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), truncate(node.Name)))
		}
		seen[node.Name] = true
		errs = append(errs, requiredResources(node.Resources, at.Child("resources"))...)
		errs = append(errs, offeredLabels(node.Labels, at.Child("labels"))...)
		for name, quantity := range node.Resources {
			total := sum[name].DeepCopy()
			total.Add(quantity)
			sum[name] = total
		}
	}
	if len(errs) > 0 {
		return errs
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		total, most := sum[name], offered[name]
		if total.Cmp(most) > 0 {
			errs = append(errs, field.Invalid(path, total.String(),
				fmt.Sprintf("must have in total at most %s of %s, the amount in spec.resources", most.String(), name)))
		}
	}
	return errs
}

// describing are the labels of Kubernetes that a provider may set on virtual nodes of its
// consumers.
var describing = map[string]bool{
	corev1.LabelTopologyRegion:     true,
	corev1.LabelTopologyZone:       true,
	corev1.LabelArchStable:         true,
	corev1.LabelOSStable:           true,
	corev1.LabelInstanceTypeStable: true,
}

// offeredLabels validates the labels that a provider sets on virtual nodes of the consumer. With
// other labels a provider could make a virtual node appear as a control plane node, as another node
// or as a node of another cluster.
func offeredLabels(set map[string]string, path *field.Path) field.ErrorList {
	errs := labels(set, path)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if !OfferedLabel(key) {
			domain, _, _ := strings.Cut(key, "/")
			errs = append(errs, field.Forbidden(path.Key(truncate(key)),
				fmt.Sprintf("must not be a label of %s, except region, zone, architecture, operating system and instance type",
					truncate(domain))))
		}
	}
	return errs
}

// OfferedLabel reports whether a provider may set a label with this key on virtual nodes of its
// consumers.
func OfferedLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	reserved := key == v1alpha1.LabelType || key == v1alpha1.LabelRemoteClusterID ||
		inDomain(domain, "kubernetes.io") || inDomain(domain, "k8s.io")
	return !reserved || describing[key]
}

func inDomain(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

func negotiationPhase(phase federation.NegotiationPhase, path *field.Path) field.ErrorList {
	return oneOf(phase, path, "",
		federation.NegotiationPending, federation.NegotiationAccepted, federation.NegotiationRefused,
		federation.NegotiationManualActionRequired, federation.NegotiationWithdrawn)
}
