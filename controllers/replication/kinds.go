// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
)

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
		if !knownPhase(s.Phase) {
			s.Phase = v1alpha1.NegotiationPending
		}
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
		for i := range s.Namespaces {
			s.Namespaces[i].Message = remote.Text(s.Namespaces[i].Message)
		}
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

func knownPhase(phase v1alpha1.NegotiationPhase) bool {
	switch phase {
	case "", v1alpha1.NegotiationPending, v1alpha1.NegotiationAccepted, v1alpha1.NegotiationRefused,
		v1alpha1.NegotiationManualActionRequired, v1alpha1.NegotiationWithdrawn:
		return true
	}
	return false
}

// cleanConditions keeps what a stranger says short and printable.
func cleanConditions(conditions []metav1.Condition) []metav1.Condition {
	if len(conditions) > maxConditions {
		conditions = conditions[:maxConditions]
	}
	for i := range conditions {
		conditions[i].Message = remote.Text(conditions[i].Message)
		if len(conditions[i].Reason) > maxReason {
			conditions[i].Reason = conditions[i].Reason[:maxReason]
		}
	}
	return conditions
}
