// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

const (
	// maxSpec bounds a spec that a stranger wrote, in bytes. Everything else
	// about it is checked by our own API server when it is written there.
	maxSpec = 64 << 10
	// maxConditions and maxNamespaces bound a status that a stranger wrote.
	maxConditions = 8
	maxNamespaces = 1000
	maxReason     = 128
	maxNames      = 32
)

// ReasonUnknownPhase is the reason of the condition Accepted of a request that
// was answered in a way that this version does not know.
const ReasonUnknownPhase = "UnknownPhase"

var requestKind = &kind[*v1alpha1.ResourceRequest, v1alpha1.ResourceRequestSpec, v1alpha1.ResourceRequestStatus]{
	name: "resource request",
	empty: func(name string) *v1alpha1.ResourceRequest {
		return &v1alpha1.ResourceRequest{ObjectMeta: newMeta(name)}
	},
	parts: func(r *v1alpha1.ResourceRequest) (*v1alpha1.ResourceRequestSpec, *v1alpha1.ResourceRequestStatus) {
		return &r.Spec, &r.Status
	},
	observed:   func(s *v1alpha1.ResourceRequestStatus) *int64 { return &s.ObservedGeneration },
	conditions: func(s *v1alpha1.ResourceRequestStatus) []metav1.Condition { return s.Conditions },
	checkSpec:  func(*v1alpha1.ResourceRequestSpec) error { return nil },
	cleanStatus: func(s *v1alpha1.ResourceRequestStatus) {
		s.Conditions = cleanConditions(s.Conditions)
		if len(validation.IsDNS1123Subdomain(s.OfferName)) > 0 {
			s.OfferName = ""
		}
		s.APIVersions = names(s.APIVersions, func(name string) []string { return validation.IsDNS1123Label(name) })
		s.Features = names(s.Features, func(name string) []string { return validation.IsQualifiedName(name) })
		if !knownPhase(s.Phase) {
			meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionAccepted)
			s.Conditions = s.Conditions[:min(len(s.Conditions), maxConditions-1)]
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionUnknown, Reason: ReasonUnknownPhase,
				LastTransitionTime: metav1.Unix(0, 0),
				Message:            fmt.Sprintf("The provider answers %q, which this version does not know: upgrade this cluster.", remote.Text(string(s.Phase))),
			})
			s.Phase = v1alpha1.NegotiationPending
		}
		s.ObservedGeneration = max(s.ObservedGeneration, 0)
	},
}

var mapKind = &kind[*v1alpha1.NamespaceMap, v1alpha1.NamespaceMapSpec, v1alpha1.NamespaceMapStatus]{
	name: "namespace map",
	empty: func(name string) *v1alpha1.NamespaceMap {
		return &v1alpha1.NamespaceMap{ObjectMeta: newMeta(name)}
	},
	parts: func(m *v1alpha1.NamespaceMap) (*v1alpha1.NamespaceMapSpec, *v1alpha1.NamespaceMapStatus) {
		return &m.Spec, &m.Status
	},
	observed:   func(s *v1alpha1.NamespaceMapStatus) *int64 { return &s.ObservedGeneration },
	conditions: func(*v1alpha1.NamespaceMapStatus) []metav1.Condition { return nil },
	checkSpec:  func(*v1alpha1.NamespaceMapSpec) error { return nil },
	cleanStatus: func(s *v1alpha1.NamespaceMapStatus) {
		if len(s.Namespaces) > maxNamespaces {
			s.Namespaces = s.Namespaces[:maxNamespaces]
		}
		s.Namespaces = cleanMappings(s.Namespaces)
		s.ObservedGeneration = max(s.ObservedGeneration, 0)
	},
}

var offerKind = &kind[*v1alpha1.ResourceOffer, v1alpha1.ResourceOfferSpec, v1alpha1.ResourceOfferStatus]{
	name: "resource offer",
	empty: func(name string) *v1alpha1.ResourceOffer {
		return &v1alpha1.ResourceOffer{ObjectMeta: newMeta(name)}
	},
	parts: func(o *v1alpha1.ResourceOffer) (*v1alpha1.ResourceOfferSpec, *v1alpha1.ResourceOfferStatus) {
		return &o.Spec, &o.Status
	},
	observed:    func(s *v1alpha1.ResourceOfferStatus) *int64 { return &s.ObservedGeneration },
	conditions:  func(s *v1alpha1.ResourceOfferStatus) []metav1.Condition { return s.Conditions },
	checkSpec:   boundedSpec[v1alpha1.ResourceOfferSpec],
	cleanStatus: func(*v1alpha1.ResourceOfferStatus) {},
}

func newMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}
}

func boundedSpec[S any](spec *S) error {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if len(encoded) > maxSpec {
		return fmt.Errorf("it has %d bytes, more than %d", len(encoded), maxSpec)
	}
	return nil
}

// names keeps what a stranger lists short, and such names as we can store.
func names(list []string, check func(string) []string) []string {
	var kept []string
	for _, name := range list {
		if len(kept) < maxNames && len(check(name)) == 0 && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

func knownPhase(phase v1alpha1.NegotiationPhase) bool {
	switch phase {
	case "", v1alpha1.NegotiationPending, v1alpha1.NegotiationAccepted, v1alpha1.NegotiationRefused,
		v1alpha1.NegotiationManualActionRequired, v1alpha1.NegotiationWithdrawn:
		return true
	}
	return false
}

// cleanMappings keeps the answers that our own API server takes: one that it
// refuses would keep it from learning any other.
func cleanMappings(mappings []v1alpha1.NamespaceMappingStatus) []v1alpha1.NamespaceMappingStatus {
	var clean []v1alpha1.NamespaceMappingStatus
	seen := map[string]bool{}
	for _, mapping := range mappings {
		mapping.Message = remote.Text(mapping.Message)
		if seen[mapping.Name] || !knownMapping(mapping.Phase) ||
			len(validation.IsDNS1123Label(mapping.Name)) > 0 || len(validation.IsDNS1123Label(mapping.RemoteName)) > 0 {
			continue
		}
		seen[mapping.Name] = true
		clean = append(clean, mapping)
	}
	return clean
}

func knownMapping(phase v1alpha1.NamespaceMappingPhase) bool {
	switch phase {
	case v1alpha1.NamespaceMappingReady, v1alpha1.NamespaceMappingTerminating, v1alpha1.NamespaceMappingConflict,
		v1alpha1.NamespaceMappingRefused, v1alpha1.NamespaceMappingFailed:
		return true
	}
	return false
}

// cleanConditions keeps what a stranger says short and printable, and leaves
// out what is no condition at all.
func cleanConditions(conditions []metav1.Condition) []metav1.Condition {
	if len(conditions) > maxConditions {
		conditions = conditions[:maxConditions]
	}
	var clean []metav1.Condition
	for _, condition := range conditions {
		condition.Message = remote.Text(condition.Message)
		if len(condition.Reason) > maxReason {
			condition.Reason = condition.Reason[:maxReason]
		}
		condition.ObservedGeneration = max(condition.ObservedGeneration, 0)
		if all := append(clean[:len(clean):len(clean)], condition); len(metav1validation.ValidateConditions(all, nil)) == 0 {
			clean = all
		}
	}
	return clean
}
