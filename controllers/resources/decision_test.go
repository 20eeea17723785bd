// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func why(conditions []metav1.Condition) string {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted); condition != nil {
		return condition.Message
	}
	return ""
}

func TestAnAdministratorMayWantToDecideAboutOneClusterAlone(t *testing.T) {
	w := consumes()
	w.fc.Spec.Borrowing = v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringManual}
	r := w.consumer()
	w.pass(t, r)
	w.offers = append(w.offers, offered("milan", func(*v1alpha1.ResourceOffer) {}))
	w.pass(t, r)
	if phase := w.offers[0].Status.Phase; phase != v1alpha1.NegotiationManualActionRequired || len(w.nodes) > 0 {
		t.Errorf("phase %s, %d virtual nodes", phase, len(w.nodes))
	}
}

func TestAConsumersAdministratorDecides(t *testing.T) {
	w := consumes()
	r := w.consumer()
	r.autoAccept = false
	w.pass(t, r)
	w.offers = append(w.offers, offered("milan", func(*v1alpha1.ResourceOffer) {}))
	for _, stage := range []struct {
		name   string
		answer v1alpha1.PeeringAnswer
		phase  v1alpha1.NegotiationPhase
		says   string
		nodes  int
	}{
		{"has not decided", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationManualActionRequired, "spec.borrowing.decision of ForeignCluster milan", 0},
		{"accepts", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts", 1},
		{"leaves it at that", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationAccepted, "accepted", 1},
		{"refuses, and the virtual node goes first", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "too far away"}, v1alpha1.NegotiationAccepted, "being removed", 0},
		{"has refused", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "too far away"}, v1alpha1.NegotiationRefused, "too far away", 0},
	} {
		t.Run(stage.name, func(t *testing.T) {
			w.fc = w.fc.DeepCopy()
			w.fc.Spec.Borrowing = stage.answer
			w.pass(t, r)
			status := w.offers[0].Status
			if status.Phase != stage.phase || !strings.Contains(why(status.Conditions), stage.says) || len(w.nodes) != stage.nodes {
				t.Errorf("phase %s, %q, %d virtual nodes", status.Phase, why(status.Conditions), len(w.nodes))
			}
		})
	}
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}
}

func TestAVirtualNodeFollowsTheOffer(t *testing.T) {
	for _, cpu := range []string{"1", "2"} {
		w := consumes()
		w.offers = []*v1alpha1.ResourceOffer{offered("milan", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", "1800m") })}
		w.pass(t, w.consumer())
		w.offers[0].Spec.Resources = list("cpu", cpu)
		if diff := cmp.Diff([]string{"node milan"}, w.pass(t, w.consumer())); diff != "" {
			t.Errorf("writes of the consumer (-want +got):\n%s", diff)
		}
		if got := text(w.nodes[0].Spec.Resources)["cpu"]; got != cpu {
			t.Errorf("the virtual node has %s CPUs", got)
		}
	}
}
