// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/negotiation"
	"liqo.io/federation/controllers/link/foreigncluster"
)

func TestProgressNamesTheRemedy(t *testing.T) {
	offer := func(cpu string, phase v1alpha1.NegotiationPhase, message string) v1alpha1.ResourceOffer {
		return v1alpha1.ResourceOffer{
			Spec: v1alpha1.ResourceOfferSpec{Resources: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
			Status: v1alpha1.ResourceOfferStatus{
				Phase: phase, Conditions: []metav1.Condition{negotiation.Accepted(phase, message, 1)},
			},
		}
	}
	withdrawn := offer("1", v1alpha1.NegotiationRefused, "")
	withdrawn.Spec.Withdrawn = true
	request := func(phase v1alpha1.NegotiationPhase, message string) []v1alpha1.ResourceRequest {
		return []v1alpha1.ResourceRequest{{Status: v1alpha1.ResourceRequestStatus{
			Phase: phase, Conditions: []metav1.Condition{negotiation.Accepted(phase, message, 1)},
		}}}
	}
	accepted, full := v1alpha1.NegotiationAccepted, offer("1", v1alpha1.NegotiationAccepted, "")
	empty := offer("0", v1alpha1.NegotiationAccepted, "")
	for _, test := range []struct {
		name     string
		change   func(*v1alpha1.ForeignClusterSpec)
		requests []v1alpha1.ResourceRequest
		offers   []v1alpha1.ResourceOffer
		phase    v1alpha1.PeeringPhase
		reason   string
		contains string
	}{
		{name: "no offer", phase: v1alpha1.PeeringPending, reason: foreigncluster.ReasonAwaitingConsumer},
		{name: "an accepted offer", offers: []v1alpha1.ResourceOffer{full}, phase: v1alpha1.PeeringEstablished,
			reason: foreigncluster.ReasonOfferAccepted},
		{name: "an accepted offer without resources", offers: []v1alpha1.ResourceOffer{empty},
			phase: v1alpha1.PeeringEstablished, reason: foreigncluster.ReasonOfferAccepted, contains: "policy.nodeSelector"},
		{name: "one of two offers has resources", offers: []v1alpha1.ResourceOffer{empty, full},
			phase: v1alpha1.PeeringEstablished, reason: foreigncluster.ReasonOfferAccepted},
		{name: "a cordoned consumer", change: func(s *v1alpha1.ForeignClusterSpec) { s.Cordoned = true },
			offers: []v1alpha1.ResourceOffer{empty}, phase: v1alpha1.PeeringEstablished,
			reason: foreigncluster.ReasonOfferAccepted, contains: "spec.cordoned"},
		{name: "a refused request",
			change: func(s *v1alpha1.ForeignClusterSpec) {
				s.IncomingPolicy.Decision = v1alpha1.PeeringRefuse
			},
			requests: request(v1alpha1.NegotiationRefused, "no room"), phase: v1alpha1.PeeringDenied,
			reason: foreigncluster.ReasonRequestRefused, contains: "no room. To accept the request, set"},
		{name: "a refused offer", requests: request(accepted, ""),
			offers: []v1alpha1.ResourceOffer{withdrawn, offer("1", v1alpha1.NegotiationRefused, "too expensive")},
			phase:  v1alpha1.PeeringDenied, reason: foreigncluster.ReasonOfferRefused, contains: "too expensive"},
		{name: "an offer that waits for the consumer's administrator", requests: request(accepted, ""),
			offers: []v1alpha1.ResourceOffer{offer("1", v1alpha1.NegotiationManualActionRequired, "waits for a decision")},
			phase:  v1alpha1.PeeringPending, reason: foreigncluster.ReasonAwaitingConsumer, contains: "waits for a decision"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := &v1alpha1.ForeignCluster{}
			if test.change != nil {
				test.change(&fc.Spec)
			}
			phase, reason, message := progress(fc, test.requests, test.offers)
			if phase != test.phase || reason != test.reason || !strings.Contains(message, test.contains) {
				t.Errorf("got %s, %s, %q", phase, reason, message)
			}
		})
	}
}
