// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAdministratorDecidesManualPeerings(t *testing.T) {
	for _, test := range []struct {
		decision   v1alpha1.PeeringDecision
		autoAccept bool
		want       bool
	}{
		{"", true, false}, {"", false, true},
		{v1alpha1.PeeringManual, true, true}, {v1alpha1.PeeringManual, false, true},
		{v1alpha1.PeeringAccept, false, false}, {v1alpha1.PeeringRefuse, false, false},
	} {
		if got := Undecided(&v1alpha1.PeeringAnswer{Decision: test.decision}, test.autoAccept); got != test.want {
			t.Errorf("decision %q, automatic acceptance %t: undecided %t, want %t", test.decision, test.autoAccept, got,
				test.want)
		}
	}
}

func TestOnlyAcceptedIsTrue(t *testing.T) {
	for phase, want := range map[v1alpha1.NegotiationPhase]metav1.ConditionStatus{
		v1alpha1.NegotiationAccepted: metav1.ConditionTrue, v1alpha1.NegotiationRefused: metav1.ConditionFalse,
		v1alpha1.NegotiationPending: metav1.ConditionFalse, v1alpha1.NegotiationWithdrawn: metav1.ConditionFalse,
	} {
		if got := Accepted(phase, WithReason("Because", "of that"), 3); got.Status != want || got.Reason != string(phase) ||
			got.Message != "Because: of that" || got.ObservedGeneration != 3 {
			t.Errorf("phase %s: condition %+v", phase, got)
		}
	}
}
