// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package negotiation has the rules that consumer and provider share in the negotiation of resources:
// when an administrator has to decide, and how a decision is reported.
package negotiation

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Undecided reports whether a request or an offer waits for an administrator: the decision is Manual,
// or it is empty and autoAccept, the policy of the installation, is false.
func Undecided(answer *v1alpha1.PeeringAnswer, autoAccept bool) bool {
	return answer.Decision == v1alpha1.PeeringManual || answer.Decision == "" && !autoAccept
}

// WithReason appends an administrator's reason to a sentence without its full stop. With an empty
// reason it appends only the full stop.
func WithReason(sentence, reason string) string {
	if reason == "" {
		return sentence + "."
	}
	return sentence + ": " + reason
}

// WithRemedy appends a sentence to a message that may end with an administrator's reason, without a full stop.
func WithRemedy(message, sentence string) string {
	return strings.TrimRight(message, ". ") + ". " + sentence
}

// Accepted returns the condition Accepted of a resource request or offer in a phase. It is True in phase Accepted and
// False in all other phases, and its reason is the phase. generation is the generation of the request or offer that was
// decided on.
func Accepted(phase v1alpha1.NegotiationPhase, message string, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	if phase == v1alpha1.NegotiationAccepted {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: status, ObservedGeneration: generation,
		Reason: string(phase), Message: message,
	}
}

// Empty reports whether at least one of the offers is accepted and not withdrawn, and all such offers contain no
// resources, so that no new pods are scheduled on the virtual nodes of the consumer.
func Empty(offers []v1alpha1.ResourceOffer) bool {
	accepted := false
	for i := range offers {
		if offers[i].Status.Phase != v1alpha1.NegotiationAccepted || offers[i].Spec.Withdrawn {
			continue
		}
		accepted = true
		for _, quantity := range offers[i].Spec.Resources {
			if !quantity.IsZero() {
				return false
			}
		}
	}
	return accepted
}
