// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func why(conditions []metav1.Condition) string {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted); condition != nil {
		return condition.Message
	}
	return ""
}

func TestAProvidersAdministratorDecides(t *testing.T) {
	w := provides()
	policy := DefaultPolicy()
	policy.AutoAccept = false
	r := w.provider(policy)
	for _, stage := range []struct {
		name      string
		answer    v1alpha1.PeeringAnswer
		phase     v1alpha1.NegotiationPhase
		says      string
		offers    int
		withdrawn bool
	}{
		{"has not decided", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationManualActionRequired, "spec.lending.decision of ForeignCluster rome", 0, false},
		{"refuses", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "no room before May"}, v1alpha1.NegotiationRefused, "no room before May", 0, false},
		{"accepts", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts", 1, false},
		{"leaves it at that", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationAccepted, "made an offer", 1, false},
		{"takes it back", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "maintenance"}, v1alpha1.NegotiationRefused, "maintenance", 1, true},
		{"accepts again", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts", 1, false},
	} {
		t.Run(stage.name, func(t *testing.T) {
			w.fc = w.fc.DeepCopy()
			w.fc.Spec.Lending.PeeringAnswer = stage.answer
			w.pass(t, r)
			status := w.requests[0].Status
			if status.Phase != stage.phase || !strings.Contains(why(status.Conditions), stage.says) || len(w.offers) != stage.offers {
				t.Fatalf("phase %s, %q, %d offers", status.Phase, why(status.Conditions), len(w.offers))
			}
			if stage.offers > 0 && w.offers[0].Spec.Withdrawn != stage.withdrawn {
				t.Errorf("withdrawn: %v", w.offers[0].Spec.Withdrawn)
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
		})
	}
}

func TestAnAdministratorMayWantToDecideAboutOneClusterAlone(t *testing.T) {
	manual := v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringManual}
	t.Run("as a provider", func(t *testing.T) {
		w := provides()
		w.fc.Spec.Lending.PeeringAnswer = manual
		r := w.provider(DefaultPolicy())
		w.pass(t, r)
		if phase := w.requests[0].Status.Phase; phase != v1alpha1.NegotiationManualActionRequired || len(w.offers) > 0 {
			t.Errorf("phase %s, %d offers", phase, len(w.offers))
		}
		w.fc.Spec.Lending.Decision = v1alpha1.PeeringAccept
		w.pass(t, r)
		w.fc.Spec.Lending.Decision = v1alpha1.PeeringManual
		w.fc.Spec.Lending.SharePercent = ptr.To[int32](10)
		w.pass(t, r)
		if cpu := text(w.offers[0].Spec.Resources)["cpu"]; cpu != "1800m" || w.requests[0].Status.Phase != v1alpha1.NegotiationAccepted {
			t.Errorf("what was accepted has become %s CPUs, phase %s", cpu, w.requests[0].Status.Phase)
		}
	})
	t.Run("as a consumer", func(t *testing.T) {
		w := consumes()
		w.fc.Spec.Borrowing = manual
		r := w.consumer()
		w.pass(t, r)
		w.offers = append(w.offers, offered("milan", func(*v1alpha1.ResourceOffer) {}))
		w.pass(t, r)
		if phase := w.offers[0].Status.Phase; phase != v1alpha1.NegotiationManualActionRequired || len(w.nodes) > 0 {
			t.Errorf("phase %s, %d virtual nodes", phase, len(w.nodes))
		}
	})
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

func TestAnOfferFollowsThePolicyAndTheVirtualNodeTheOffer(t *testing.T) {
	w := provides()
	w.pass(t, w.provider(DefaultPolicy()))
	for _, test := range []struct {
		percent int
		cpu     string
	}{{50, "1"}, {100, "2"}} {
		policy := DefaultPolicy()
		policy.SharePercent = test.percent
		w.pass(t, w.provider(policy))
		if cpu := text(w.offers[0].Spec.Resources)["cpu"]; cpu != test.cpu {
			t.Errorf("%d percent of two CPUs are %s", test.percent, cpu)
		}
		there := consumes()
		there.offers = []*v1alpha1.ResourceOffer{offered("milan", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", "1800m") })}
		there.pass(t, there.consumer())
		there.offers[0].Spec.Resources = w.offers[0].Spec.Resources
		if diff := cmp.Diff([]string{"node milan"}, there.pass(t, there.consumer())); diff != "" {
			t.Errorf("writes of the consumer (-want +got):\n%s", diff)
		}
		if cpu := text(there.nodes[0].Spec.Resources)["cpu"]; cpu != test.cpu {
			t.Errorf("the virtual node has %s CPUs", cpu)
		}
	}
}

func TestAPeerThatSpeaksNoVersionOfOursIsRefusedInWords(t *testing.T) {
	w := provides()
	w.requests[0].Spec.APIVersions = []string{"v3", "v2"}
	w.pass(t, w.provider(DefaultPolicy()))
	status := w.requests[0].Status
	if status.Phase != v1alpha1.NegotiationRefused || !strings.Contains(why(status.Conditions), "v3, v2") || len(w.offers) > 0 {
		t.Errorf("phase %s, %q, %d offers", status.Phase, why(status.Conditions), len(w.offers))
	}
	if len(status.APIVersions) == 0 {
		t.Error("the answer does not say what this cluster speaks")
	}
	w.requests[0].Spec.APIVersions = []string{"v3", "v1alpha1"}
	w.requests[0].Spec.Features = []string{"Teleportation"}
	w.pass(t, w.provider(DefaultPolicy()))
	if phase := w.requests[0].Status.Phase; phase != v1alpha1.NegotiationAccepted {
		t.Errorf("a newer peer that speaks our version, too, is answered with %s", phase)
	}
}

func TestARenamedClusterKeepsItsPeering(t *testing.T) {
	w := provides()
	w.pass(t, w.provider(DefaultPolicy()))
	renamed := w.provider(DefaultPolicy())
	renamed.clusterName = "milano"
	if writes := w.pass(t, renamed); len(writes) > 0 {
		t.Errorf("a provider that was renamed wrote %v", writes)
	}
	w.requests = append(w.requests, &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-rome", Name: "roma-nuova", Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
	}})
	w.pass(t, renamed)
	phases := map[string]v1alpha1.NegotiationPhase{}
	for _, request := range w.requests {
		phases[request.Name] = request.Status.Phase
	}
	if diff := cmp.Diff(map[string]v1alpha1.NegotiationPhase{"rome": v1alpha1.NegotiationRefused, "roma-nuova": v1alpha1.NegotiationAccepted}, phases); diff != "" {
		t.Errorf("phases after the consumer was renamed (-want +got):\n%s", diff)
	}
}
