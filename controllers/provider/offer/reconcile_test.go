// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestRequestIsAnsweredWithAnOffer(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	if diff := cmp.Diff([]string{"create ResourceOffer milan", "patch status ResourceRequest rome"},
		w.pass()); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	if offer := w.offer(); offer.Spec.ClusterID != milanID || text(offer.Spec.Resources)["cpu"] != "1800m" {
		t.Errorf("offer %+v", offer.Spec)
	}
	if status := w.request().Status; status.Phase != v1alpha1.NegotiationAccepted || status.OfferName != "milan" ||
		status.ObservedGeneration != 1 {
		t.Errorf("answer %+v", status)
	}
	w.rests("answered")
	allocatable := func(cpu string) {
		w.changeNode("worker", func(node *corev1.Node) {
			node.Status.Allocatable = list("cpu", cpu, "memory", "4Gi", "pods",
				"110")
		})
	}
	allocatable("2010m")
	w.rests("a node that grew by half a percent")
	allocatable("4")
	if diff := cmp.Diff([]string{"patch ResourceOffer milan"}, w.pass()); diff != "" {
		t.Errorf("writes after a node doubled (-want +got):\n%s", diff)
	}
}

func TestKilledAtAnyWriteItAnswersOnce(t *testing.T) {
	for number := range 2 {
		for _, done := range []bool{false, true} {
			w := newWorld(t, DefaultPolicy())
			w.Kill(number, done)
			if _, err := w.Reconcile(t.Context(), kit.Request("", "rome")); !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("write %d, done %t: error %v", number, done, err)
			}
			w.Fault = nil
			w.pass()
			phase, _ := w.answer()
			if names := w.offerNames(); phase != v1alpha1.NegotiationAccepted || !slices.Equal(names, []string{"milan"}) {
				t.Errorf("write %d, done %t: phase %s, offers %v", number, done, phase, names)
			}
			w.rests("restarted")
		}
	}
}

func TestCordonedConsumerIsOfferedNothingNew(t *testing.T) {
	for _, shape := range []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode} {
		t.Run(string(shape), func(t *testing.T) {
			w := newWorld(t, DefaultPolicy())
			cordon := func(cordoned bool) {
				w.changeCluster(
					func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned, fc.Spec.IncomingPolicy.Shape = cordoned, shape })
			}
			cordon(true)
			if diff := cmp.Diff([]string{"patch status ResourceRequest rome"}, w.pass()); diff != "" {
				t.Fatalf("without an offer (-want +got):\n%s", diff)
			}
			if phase, message := w.answer(); phase != v1alpha1.NegotiationPending || !strings.Contains(message, "nothing new") {
				t.Errorf("answer %s: %s", phase, message)
			}
			cordon(false)
			w.pass()
			before := w.offer().Spec
			cordon(true)
			if diff := cmp.Diff([]string{"patch ResourceOffer milan"}, w.pass()); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			cordoned := w.offer().Spec
			for _, resources := range []corev1.ResourceList{total(cordoned.Nodes), cordoned.Resources} {
				for name, quantity := range resources {
					if !quantity.IsZero() {
						t.Errorf("%s of %s is offered", quantity.String(), name)
					}
				}
			}
			if len(cordoned.Resources) != len(before.Resources) || len(cordoned.Nodes) != len(before.Nodes) ||
				cordoned.Withdrawn {
				t.Errorf("offer %+v", cordoned)
			}
			w.rests("cordoned")
			cordon(false)
			w.pass()
			if after := w.offer().Spec; !equality.Semantic.DeepEqual(before, after) {
				t.Errorf("after the cordon the offer is %+v, want %+v", after, before)
			}
		})
	}
}

func TestCordonEmptiesAnOfferAlsoIfAnAdministratorDecides(t *testing.T) {
	for _, shape := range []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode} {
		t.Run(string(shape), func(t *testing.T) {
			w := newWorld(t, DefaultPolicy())
			cordon := func(cordoned bool) {
				w.changeCluster(
					func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned, fc.Spec.IncomingPolicy.Shape = cordoned, shape })
			}
			cordon(false)
			w.pass()
			w.Policy = manual()
			before := w.offer().Spec
			// An administrator accepted the old resources, so the change of the node is not offered.
			w.changeNode("worker", func(node *corev1.Node) {
				node.Status.Allocatable = list("cpu", "64", "memory", "64Gi",
					"pods", "110")
			})
			cordon(true)
			w.pass()
			for name, quantity := range w.offer().Spec.Resources {
				if !quantity.IsZero() {
					t.Errorf("%s of %s is offered", quantity.String(), name)
				}
			}
			if phase, message := w.answer(); phase != v1alpha1.NegotiationAccepted || !strings.Contains(message, "nothing new") {
				t.Errorf("answer %s: %s", phase, message)
			}
			w.rests("cordoned")
			cordon(false)
			w.pass()
			if after := w.offer(); !equality.Semantic.DeepEqual(before, after.Spec) || len(after.Annotations) > 0 {
				t.Errorf("after the cordon the offer is %+v, want %+v; annotations %v", after.Spec, before, after.Annotations)
			}
		})
	}
}

func TestAdministratorsOffersAreNotChanged(t *testing.T) {
	by := func(name string) *v1alpha1.ResourceOffer {
		return &v1alpha1.ResourceOffer{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
			Spec:       v1alpha1.ResourceOfferSpec{ClusterID: milanID, Resources: list("cpu", "500m")},
		}
	}
	for _, test := range []struct {
		name, offer      string
		policy           Policy
		cordoned         bool
		offers           []string
		answer, contains string
	}{
		{"in addition to the controller's", "batch", DefaultPolicy(), false, []string{"batch", "milan"}, "milan",
			"policy allows"},
		{"with the name of the controller's", "milan", DefaultPolicy(), false, []string{"milan", "milan-2"}, "milan-2",
			"policy allows"},
		{"if an administrator decides", "batch", manual(), false, []string{"batch"}, "batch", "made an offer"},
		{"of a cordoned consumer", "batch", manual(), true, []string{"batch"}, "batch",
			"still admit new pods although the consumer is cordoned: batch."},
		{"of a consumer that was cordoned before its first offer", "batch", DefaultPolicy(), true, []string{"batch"}, "",
			"still admit new pods although the consumer is cordoned: batch."},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.policy)
			w.Add(by(test.offer))
			before := kittest.Read(w.Cluster, tenant, test.offer, &v1alpha1.ResourceOffer{})
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = test.cordoned })
			w.pass()
			if diff := cmp.Diff(before, kittest.Read(w.Cluster, tenant, test.offer, &v1alpha1.ResourceOffer{})); diff != "" {
				t.Errorf("the administrator's offer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.offers, w.offerNames()); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
			if _, message := w.answer(); w.request().Status.OfferName != test.answer ||
				!strings.Contains(message, test.contains) {
				t.Errorf("answered with %q: %s", w.request().Status.OfferName, message)
			}
			w.rests("answered")
		})
	}
	t.Run("created later, and first by name", func(t *testing.T) {
		w := newWorld(t, DefaultPolicy())
		w.pass()
		w.Add(by("batch"))
		w.rests("with another offer")
		if name := w.request().Status.OfferName; name != "milan" {
			t.Errorf("answered with %s", name)
		}
	})
}

func TestOfferIsWithdrawn(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"with the request": func(w *world) error {
			w.changeRequest(func(request *v1alpha1.ResourceRequest) { request.Spec.Withdrawn = true })
			return nil
		},
		"with the incoming peering": func(w *world) error {
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Incoming = v1alpha1.PeeringDisabled })
			return nil
		},
		"when the foreign cluster is deleted": func(w *world) error {
			return w.Delete(w.t.Context(), kittest.Read(w.Cluster, "", "rome", &v1alpha1.ForeignCluster{}))
		},
		"when the request is deleted": func(w *world) error { return w.Delete(w.t.Context(), w.request()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, DefaultPolicy())
			w.pass()
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"patch ResourceOffer milan"}, w.pass()); diff != "" || !w.offer().Spec.Withdrawn {
				t.Fatalf("withdrawn: %v, writes (-want +got):\n%s", w.offer().Spec.Withdrawn, diff)
			}
			w.rests("withdrawn")
		})
	}
}

func TestManualPolicyWaitsForAnAdministrator(t *testing.T) {
	w := newWorld(t, manual())
	w.pass()
	if phase, _ := w.answer(); phase != v1alpha1.NegotiationManualActionRequired || len(w.offerNames()) > 0 {
		t.Fatalf("phase %s, offers %v", phase, w.offerNames())
	}
	w.Add(&v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}})
	w.pass()
	if phase, _ := w.answer(); phase != v1alpha1.NegotiationAccepted {
		t.Errorf("phase %s after the administrator made an offer", phase)
	}
}

func TestAdministratorOfTheProviderDecides(t *testing.T) {
	w := newWorld(t, manual())
	for _, stage := range []struct {
		name      string
		answer    v1alpha1.PeeringAnswer
		phase     v1alpha1.NegotiationPhase
		contains  string
		offered   bool
		withdrawn bool
	}{
		{"no decision", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationManualActionRequired,
			"spec.incomingPolicy.decision of ForeignCluster rome", false, false},
		{"refused", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "no room before May"},
			v1alpha1.NegotiationRefused, "no room before May", false, false},
		{"accepted", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts", true,
			false},
		{"decision removed", v1alpha1.PeeringAnswer{}, v1alpha1.NegotiationAccepted, "made an offer", true, false},
		{"refused later", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse, Reason: "maintenance"},
			v1alpha1.NegotiationRefused, "maintenance", true, true},
		{"accepted again", v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringAccept}, v1alpha1.NegotiationAccepted, "accepts",
			true, false},
	} {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.PeeringAnswer = stage.answer })
		w.pass()
		phase, message := w.answer()
		if phase != stage.phase || !strings.Contains(message, stage.contains) || len(w.offerNames()) > 0 != stage.offered {
			t.Fatalf("%s: phase %s, %q, offers %v", stage.name, phase, message, w.offerNames())
		}
		if stage.offered && w.offer().Spec.Withdrawn != stage.withdrawn {
			t.Errorf("%s: withdrawn is %v", stage.name, w.offer().Spec.Withdrawn)
		}
		w.rests(stage.name)
	}
}

func TestDecisionManualAppliesToOneConsumer(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	decide := func(decision v1alpha1.PeeringDecision, percent *int32) {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
			fc.Spec.IncomingPolicy.Decision, fc.Spec.IncomingPolicy.SharePercent = decision, percent
		})
		w.pass()
	}
	decide(v1alpha1.PeeringManual, nil)
	if phase, _ := w.answer(); phase != v1alpha1.NegotiationManualActionRequired || len(w.offerNames()) > 0 {
		t.Errorf("phase %s, offers %v", phase, w.offerNames())
	}
	decide(v1alpha1.PeeringAccept, nil)
	decide(v1alpha1.PeeringManual, ptr.To[int32](10))
	phase, _ := w.answer()
	if cpu := text(w.offer().Spec.Resources)["cpu"]; cpu != "1800m" || phase != v1alpha1.NegotiationAccepted {
		t.Errorf("the accepted offer has %s CPUs, phase %s", cpu, phase)
	}
}

func TestOfferFollowsThePolicy(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	w.pass()
	for _, test := range []struct {
		percent int
		cpu     string
	}{{50, "1"}, {100, "2"}} {
		w.Policy.SharePercent = test.percent
		w.pass()
		if cpu := text(w.offer().Spec.Resources)["cpu"]; cpu != test.cpu {
			t.Errorf("%d percent of two CPUs are %s, want %s", test.percent, cpu, test.cpu)
		}
	}
}

func TestConsumerWithoutACommonVersionIsRefused(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	w.changeRequest(func(request *v1alpha1.ResourceRequest) { request.Spec.APIVersions = []string{"v3", "v2"} })
	w.pass()
	phase, message := w.answer()
	if phase != v1alpha1.NegotiationRefused || !strings.Contains(message, "v3, v2") || len(w.offerNames()) > 0 {
		t.Errorf("phase %s, %q, offers %v", phase, message, w.offerNames())
	}
	if len(w.request().Status.APIVersions) == 0 {
		t.Error("the answer does not have the versions of this cluster")
	}
	w.changeRequest(func(request *v1alpha1.ResourceRequest) {
		request.Spec.APIVersions, request.Spec.Features = []string{"v3", "v1alpha1"}, []string{"Teleportation"}
	})
	w.pass()
	if phase, _ := w.answer(); phase != v1alpha1.NegotiationAccepted {
		t.Errorf("a newer consumer with a common version is answered with %s", phase)
	}
}

func TestRenamedClustersKeepTheirPeering(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	w.pass()
	w.ClusterName = "milano"
	w.rests("the provider was renamed")
	w.Add(&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: "roma-nuova", Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
	}})
	w.pass()
	phases := map[string]v1alpha1.NegotiationPhase{}
	for _, name := range []string{"rome", "roma-nuova"} {
		phases[name] = kittest.Read(w.Cluster, tenant, name, &v1alpha1.ResourceRequest{}).Status.Phase
	}
	want := map[string]v1alpha1.NegotiationPhase{"rome": v1alpha1.NegotiationRefused,
		"roma-nuova": v1alpha1.NegotiationAccepted}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("phases after the consumer was renamed (-want +got):\n%s", diff)
	}
}

func TestKindsAreOfferedThatTheProviderServes(t *testing.T) {
	widgets := metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	gadgets := metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	policy := DefaultPolicy()
	policy.ReflectedKinds = []string{"widgets.v1.example.com", "gadgets.v1.example.com"}
	w := newWorld(t, policy)
	for _, stage := range []struct {
		name    string
		served  []metav1.APIResource
		failure error
		want    []metav1.GroupVersionResource
	}{
		{"none is served", nil, nil, nil},
		{"one is served", []metav1.APIResource{{Name: "widgets", Namespaced: true}}, nil,
			[]metav1.GroupVersionResource{widgets}},
		{"discovery fails", nil, errors.New("no answer"), []metav1.GroupVersionResource{widgets}},
		{"another is not namespaced", []metav1.APIResource{{Name: "widgets", Namespaced: true}, {Name: "gadgets"}}, nil,
			[]metav1.GroupVersionResource{widgets}},
		{"both are served", []metav1.APIResource{{Name: "widgets", Namespaced: true}, {Name: "gadgets", Namespaced: true}},
			nil,
			[]metav1.GroupVersionResource{widgets, gadgets}},
		{"none is served any more", nil, nil, nil},
	} {
		w.resources, w.failure = stage.served, stage.failure
		w.Clock.Step(kit.ServedKindsInterval)
		result, err := w.Reconcile(t.Context(), kit.Request("", "rome"))
		if err != nil || result.RequeueAfter != kit.ServedKindsInterval {
			t.Errorf("%s: requeued after %s, error %v", stage.name, result.RequeueAfter, err)
		}
		if diff := cmp.Diff(stage.want, w.offer().Spec.ReflectedKinds); diff != "" {
			t.Errorf("%s: offered (-want +got):\n%s", stage.name, diff)
		}
		w.rests(stage.name)
	}
}
