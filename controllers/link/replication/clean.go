// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

const (
	// maxSpec is the maximum size of a spec that a peer wrote, in bytes of JSON. The local API server
	// validates its fields when the copy is written.
	maxSpec = 64 << 10
	// maxConditions, maxNamespaces and maxNames are the maximum lengths of lists, and maxReason is the
	// maximum length of a reason, in a status that a peer wrote.
	maxConditions = 8
	maxNamespaces = 1000
	maxReason     = 128
	maxNames      = 32
)

// boundedSpec returns an error if a spec has more than maxSpec bytes.
func boundedSpec(spec any) error {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if len(encoded) > maxSpec {
		return fmt.Errorf("the spec has %d bytes, and must have at most %d", len(encoded), maxSpec)
	}
	return nil
}

// cleanNames returns the first maxNames valid names of a list, without duplicates.
func cleanNames(list []string, validate func(string) []string) []string {
	var kept []string
	for _, name := range list {
		if len(kept) < maxNames && len(validate(name)) == 0 && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

func supportedPhase(phase v1alpha1.NegotiationPhase) bool {
	switch phase {
	case "", v1alpha1.NegotiationPending, v1alpha1.NegotiationAccepted, v1alpha1.NegotiationRefused,
		v1alpha1.NegotiationManualActionRequired, v1alpha1.NegotiationWithdrawn:
		return true
	}
	return false
}

// cleanMappings returns the mappings that the local API server accepts. A single invalid mapping would
// prevent all of them from being stored.
func cleanMappings(mappings []v1alpha1.NamespaceMappingStatus) []v1alpha1.NamespaceMappingStatus {
	var clean []v1alpha1.NamespaceMappingStatus
	seen := map[string]bool{}
	for _, mapping := range mappings {
		mapping.Message = remote.Text(mapping.Message)
		if seen[mapping.Name] || !supportedMapping(mapping.Phase) ||
			len(validation.IsDNS1123Label(mapping.Name)) > 0 || len(validation.IsDNS1123Label(mapping.RemoteName)) > 0 {
			continue
		}
		seen[mapping.Name] = true
		clean = append(clean, mapping)
	}
	return clean
}

func supportedMapping(phase v1alpha1.NamespaceMappingPhase) bool {
	switch phase {
	case v1alpha1.NamespaceMappingReady, v1alpha1.NamespaceMappingTerminating, v1alpha1.NamespaceMappingConflict,
		v1alpha1.NamespaceMappingRefused, v1alpha1.NamespaceMappingFailed:
		return true
	}
	return false
}

// cleanConditions returns the valid ones of the first maxConditions conditions, with messages and reasons
// shortened, and without control characters in messages.
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
		clean = append(clean, condition)
		if len(metav1validation.ValidateConditions(clean, nil)) > 0 {
			clean = clean[:len(clean)-1]
		}
	}
	return clean
}
