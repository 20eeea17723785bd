// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestOutgoingPeeringRequestsAcceptsAndLeaves(t *testing.T) {
	w := newWorld(t)
	if diff := cmp.Diff([]string{"create ResourceRequest rome"}, w.pass()); diff != "" {
		t.Fatalf("writes of the request (-want +got):\n%s", diff)
	}
	request := func() *v1alpha1.ResourceRequest {
		return kittest.Read(w.Cluster, peerOf, "rome", &v1alpha1.ResourceRequest{})
	}
	if got := request().Spec.Resources; !equality.Semantic.DeepEqual(list("cpu", "1"), got) {
		t.Errorf("requested %v, want 1 CPU", got)
	}
	w.offer("milan")
	if diff := cmp.Diff([]string{"patch status ResourceOffer milan", "create VirtualNode milan"}, w.pass()); diff != "" {
		t.Fatalf("writes of the acceptance (-want +got):\n%s", diff)
	}
	want := v1alpha1.VirtualNodeSpec{
		ClusterID: milanID, NodeName: "liqo-milan", OfferName: "milan",
		Resources: list("cpu", "1"), Labels: map[string]string{"topology.liqo.io/region": "north"},
	}
	if got := w.nodes()[0].Spec; !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("virtual node %+v, want %+v", got, want)
	}
	w.rests("accepted")

	end := func(phase v1alpha1.PeeringPhase) {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
			fc.Spec.Outgoing, fc.Status.OutgoingPeering = v1alpha1.PeeringDisabled, phase
		})
	}
	end(v1alpha1.PeeringEstablished)
	w.rests("while data on the provider keeps the peering")
	end(v1alpha1.PeeringDisconnecting)
	if diff := cmp.Diff([]string{"delete VirtualNode milan"}, w.pass()); diff != "" {
		t.Fatalf("writes of the end (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"patch ResourceRequest rome"}, w.pass()); diff != "" || !request().Spec.Withdrawn {
		t.Fatalf("withdrawn %v (-want +got):\n%s", request().Spec.Withdrawn, diff)
	}
	w.rests("withdrawn")
}

func TestNegotiationSurvivesACrashAtEachWrite(t *testing.T) {
	for number := range 3 {
		for _, done := range []bool{false, true} {
			w := newWorld(t)
			w.offer("milan")
			w.Kill(number, done)
			if _, err := w.Reconcile(t.Context(), kit.Request("", "milan")); !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("write %d, done %t: error %v", number, done, err)
			}
			w.Fault = nil
			w.pass()
			if phase, _ := w.answer("milan"); phase != v1alpha1.NegotiationAccepted || len(w.nodes()) != 1 {
				t.Errorf("write %d, done %t: phase %s, %d virtual nodes", number, done, phase, len(w.nodes()))
			}
			w.rests("restarted")
		}
	}
}

func TestWithdrawalIsConfirmedAfterTheVirtualNodes(t *testing.T) {
	w := newWorld(t)
	w.offer("milan")
	w.pass()
	w.withdraw("milan")
	w.pass()
	if phase, _ := w.answer("milan"); len(w.nodes()) > 0 || phase == v1alpha1.NegotiationWithdrawn {
		t.Fatalf("phase %s in the pass that deletes the virtual nodes, %d left", phase, len(w.nodes()))
	}
	w.pass()
	if phase, _ := w.answer("milan"); phase != v1alpha1.NegotiationWithdrawn {
		t.Errorf("phase %s after the virtual nodes were deleted", phase)
	}
}

func TestOffersOfAnotherClusterAreRefused(t *testing.T) {
	w := newWorld(t)
	w.offer("milan")
	w.offer("other")
	w.offer("foreign", func(o *v1alpha1.ResourceOffer) { o.Spec.ClusterID = romeID })
	w.pass()
	phases := map[string]v1alpha1.NegotiationPhase{}
	for _, name := range []string{"milan", "other", "foreign"} {
		phases[name], _ = w.answer(name)
	}
	want := map[string]v1alpha1.NegotiationPhase{
		"milan": v1alpha1.NegotiationAccepted, "other": v1alpha1.NegotiationAccepted, "foreign": v1alpha1.NegotiationRefused,
	}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestOneOfSeveralOffersHasVirtualNodesOfTheController(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.offer("batch", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", "8") })
	w.offer("milan")
	w.Add(&v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: peerOf, Name: "milan-batch"},
		Spec: v1alpha1.VirtualNodeSpec{
			ClusterID: milanID, NodeName: "liqo-milan-batch", OfferName: "batch", Resources: list("cpu", "4"),
		},
	})
	names := func(name string) func() {
		return func() {
			w.changeRequest(func(request *v1alpha1.ResourceRequest) { request.Status.OfferName = name })
		}
	}
	for _, stage := range []struct {
		name   string
		change func()
		want   map[string]string
	}{
		{"the provider names an offer", names("milan"), map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"the provider names no offer", names(""), map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"the provider names the other offer", names("batch"), map[string]string{"milan-batch": "batch", "milan": "batch"}},
		{"the provider names the first offer again", names("milan"), map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"the second offer is withdrawn", func() { w.withdraw("batch") }, map[string]string{"milan": "milan"}},
		{"the first offer is withdrawn", func() { w.withdraw("milan") }, map[string]string{}},
	} {
		stage.change()
		w.pass()
		got := map[string]string{}
		for _, node := range w.nodes() {
			got[node.Name] = node.Spec.OfferName
		}
		if diff := cmp.Diff(stage.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stage.name, diff)
		}
		w.pass()
		w.rests(stage.name)
	}
}

func TestPeeringWithoutAnIdentityRequestsNothing(t *testing.T) {
	w := newWorld(t)
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Status.RemoteTenantNamespace = "" })
	w.rests("without an identity")
}

func TestDecisionManualAppliesToOneProvider(t *testing.T) {
	w := newWorld(t)
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.OutgoingPolicy = v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringManual}
	})
	w.offer("milan")
	w.pass()
	if phase, _ := w.answer("milan"); phase != v1alpha1.NegotiationManualActionRequired || len(w.nodes()) > 0 {
		t.Errorf("phase %s, %d virtual nodes", phase, len(w.nodes()))
	}
}

func TestAdministratorOfTheConsumerDecides(t *testing.T) {
	w := newWorld(t)
	w.AutoAccept = false
	w.offer("milan")
	refuse := v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "no longer needed"}
	for _, stage := range []struct {
		name     string
		answer   v1alpha1.PeeringAnswer
		phase    v1alpha1.NegotiationPhase
		contains string
		nodes    int
	}{
		{"no decision", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationManualActionRequired,
			"spec.outgoingPolicy.decision of ForeignCluster milan", 0},
		{"accepted", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts", 1},
		{"decision removed", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationAccepted, "accepted", 1},
		{"refused, and the virtual node is deleted first", refuse, v1alpha1.NegotiationAccepted, "being deleted", 0},
		{"refused", refuse, v1alpha1.NegotiationRefused, "no longer needed", 0},
	} {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.OutgoingPolicy = stage.answer })
		w.pass()
		phase, message := w.answer("milan")
		if phase != stage.phase || !strings.Contains(message, stage.contains) || len(w.nodes()) != stage.nodes {
			t.Errorf("%s: phase %s, %q, %d virtual nodes", stage.name, phase, message, len(w.nodes()))
		}
	}
	w.rests("refused")
}

func TestVirtualNodeFollowsItsOffer(t *testing.T) {
	w := newWorld(t)
	w.offer("milan", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", "1800m") })
	w.pass()
	for _, cpu := range []string{"1", "2"} {
		w.changeOffer("milan", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", cpu) })
		if diff := cmp.Diff([]string{"patch VirtualNode milan"}, w.pass()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if got := w.nodes()[0].Spec.Resources; !equality.Semantic.DeepEqual(list("cpu", cpu), got) {
			t.Errorf("the virtual node has %v, want %s CPUs", got, cpu)
		}
	}
}
