// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package negotiation has the rules that both sides of a negotiation follow: when an
// administrator decides, and how an answer is reported.
package negotiation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Undecided reports whether an answer waits for an administrator: its decision is Manual, or it has
// no decision and the policy of the cluster does not accept automatically.
func Undecided(answer *v1alpha1.PeeringAnswer, autoAccept bool) bool {
	return answer.Decision == v1alpha1.PeeringManual || answer.Decision == "" && !autoAccept
}

// WithReason returns a sentence that ends with an administrator's reason, which may be empty.
func WithReason(sentence, reason string) string {
	if reason == "" {
		return sentence + "."
	}
	return sentence + ": " + reason
}

// Accepted returns the condition Accepted of a request or an offer in a phase.
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
