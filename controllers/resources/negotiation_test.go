// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	romeID  = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
)

// world keeps what the controllers of both sides write, and writes it down.
type world struct {
	fc       *v1alpha1.ForeignCluster
	requests []*v1alpha1.ResourceRequest
	offers   []*v1alpha1.ResourceOffer
	nodes    []*v1alpha1.VirtualNode
	machines []*corev1.Node
	used     corev1.ResourceList
	stored   corev1.ResourceList
	// missing are the storage classes that the provider does not have.
	missing []string
	writes  []string
	// reserved are names that virtual nodes cannot have, and unseen is how many of
	// the latest ones are in no cache.
	reserved []string
	unseen   int
	// served are the resources of the provider that are not its own, by name.
	served    map[string]*metav1.APIResource
	discovery error
}

func replace[T metav1.Object](w *world, what string, objects []T, old, wanted T) (bool, error) {
	if equality.Semantic.DeepEqual(old, wanted) {
		return false, nil
	}
	w.writes = append(w.writes, what+" "+wanted.GetName())
	objects[slices.IndexFunc(objects, func(o T) bool { return o.GetName() == wanted.GetName() })] = wanted
	return true, nil
}

func (w *world) foreignCluster(name string) (*v1alpha1.ForeignCluster, error) {
	if w.fc == nil || w.fc.Name != name {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("foreignclusters"), name)
	}
	return w.fc, nil
}

func (w *world) provider(policy Policy) *provider {
	return &provider{
		clusterID: milanID, clusterName: "milan", policy: policy,
		foreignCluster: w.foreignCluster,
		requests:       func(string) ([]*v1alpha1.ResourceRequest, error) { return slices.Clone(w.requests), nil },
		offers:         func(string) ([]*v1alpha1.ResourceOffer, error) { return slices.Clone(w.offers), nil },
		nodes:          func() ([]*corev1.Node, error) { return w.machines, nil },
		served: func(_ context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error) {
			return w.served[kind.Resource], w.discovery
		},
		hasClass: func(name string) (bool, error) { return !slices.Contains(w.missing, name), nil },

		used:   func(string) (corev1.ResourceList, error) { return w.used, nil },
		stored: func(string) (corev1.ResourceList, error) { return w.stored, nil },
		createOffer: func(_ context.Context, offer *v1alpha1.ResourceOffer) error {
			w.writes, w.offers = append(w.writes, "create offer "+offer.Name), append(w.offers, offer)
			return nil
		},
		commitOffer: func(_ context.Context, old, wanted *v1alpha1.ResourceOffer) (bool, error) {
			return replace(w, "offer", w.offers, old, wanted)
		},
		commitRequest: func(_ context.Context, old, wanted *v1alpha1.ResourceRequest) (bool, error) {
			return replace(w, "request", w.requests, old, wanted)
		},
	}
}

func (w *world) consumer() *consumer {
	return &consumer{
		clusterName:    "rome",
		autoAccept:     true,
		foreignCluster: w.foreignCluster,
		requests:       func(string) ([]*v1alpha1.ResourceRequest, error) { return slices.Clone(w.requests), nil },
		offers:         func(string) ([]*v1alpha1.ResourceOffer, error) { return slices.Clone(w.offers), nil },
		nodes: func(string) ([]*v1alpha1.VirtualNode, error) {
			return slices.Clone(w.nodes[:len(w.nodes)-w.unseen]), nil
		},
		taken: func(_, name string) (bool, error) { return slices.Contains(w.reserved, name), nil },
		createRequest: func(_ context.Context, request *v1alpha1.ResourceRequest) error {
			w.writes, w.requests = append(w.writes, "create request "+request.Name), append(w.requests, request)
			return nil
		},
		commitRequest: func(_ context.Context, old, wanted *v1alpha1.ResourceRequest) (bool, error) {
			return replace(w, "request", w.requests, old, wanted)
		},
		commitOffer: func(_ context.Context, old, wanted *v1alpha1.ResourceOffer) (bool, error) {
			return replace(w, "offer", w.offers, old, wanted)
		},
		createNode: func(_ context.Context, node *v1alpha1.VirtualNode) error {
			if slices.ContainsFunc(w.nodes, func(n *v1alpha1.VirtualNode) bool { return n.Name == node.Name }) {
				return apierrors.NewAlreadyExists(v1alpha1.Resource("virtualnodes"), node.Name)
			}
			w.writes, w.nodes = append(w.writes, "create node "+node.Name), append(w.nodes, node)
			return nil
		},
		commitNode: func(_ context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error) {
			return replace(w, "node", w.nodes, old, wanted)
		},
		removeNode: func(_ context.Context, node *v1alpha1.VirtualNode) error {
			w.writes = append(w.writes, "delete node "+node.Name)
			w.nodes = slices.DeleteFunc(w.nodes, func(n *v1alpha1.VirtualNode) bool { return n.Name == node.Name })
			return nil
		},
	}
}

type reconciling interface {
	reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error)
}

func (w *world) pass(t *testing.T, r reconciling) []string {
	t.Helper()
	w.writes = nil
	if _, err := r.reconcile(t.Context(), cache.ObjectName{Name: w.fc.Name}); err != nil {
		t.Fatal(err)
	}
	return w.writes
}

func provides() *world {
	return &world{
		fc: &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "rome"},
			Spec:       v1alpha1.ForeignClusterSpec{ClusterID: romeID, Incoming: v1alpha1.PeeringEnabled},
			Status:     v1alpha1.ForeignClusterStatus{TenantNamespace: "liqo-tenant-rome"},
		},
		requests: []*v1alpha1.ResourceRequest{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Generation: 1}}},
		machines: []*corev1.Node{{Status: corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "4Gi", "pods", "110")}}},
	}
}

func TestAProviderAnswersARequestAndThenRests(t *testing.T) {
	w := provides()
	r := w.provider(DefaultPolicy())
	if diff := cmp.Diff([]string{"create offer milan", "request rome"}, w.pass(t, r)); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	if offer := w.offers[0]; offer.Spec.ClusterID != milanID || text(offer.Spec.Resources)["cpu"] != "1800m" {
		t.Errorf("offer %+v", offer.Spec)
	}
	if status := w.requests[0].Status; status.Phase != v1alpha1.NegotiationAccepted || status.OfferName != "milan" || status.ObservedGeneration != 1 {
		t.Errorf("answer %+v", status)
	}
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}
	w.machines[0].Status.Allocatable = list("cpu", "2010m", "memory", "4Gi", "pods", "110")
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a node that grew by half a percent led to %v", writes)
	}
	w.machines[0].Status.Allocatable = list("cpu", "4", "memory", "4Gi", "pods", "110")
	if diff := cmp.Diff([]string{"offer milan"}, w.pass(t, r)); diff != "" {
		t.Errorf("writes after a node doubled (-want +got):\n%s", diff)
	}
}

func TestAProviderHasNothingMoreForAClusterThatIsCordoned(t *testing.T) {
	for _, shape := range []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode} {
		t.Run(string(shape), func(t *testing.T) {
			w := provides()
			w.fc.Spec.Lending.Shape = shape
			r := w.provider(DefaultPolicy())
			w.fc.Spec.Cordoned = true
			if diff := cmp.Diff([]string{"request rome"}, w.pass(t, r)); diff != "" {
				t.Fatalf("before there is an offer (-want +got):\n%s", diff)
			}
			if status := w.requests[0].Status; status.Phase != v1alpha1.NegotiationPending || !strings.Contains(status.Conditions[0].Message, "nothing new") {
				t.Errorf("answer %+v", status)
			}
			w.fc.Spec.Cordoned = false
			w.pass(t, r)
			before := w.offers[0].Spec
			w.fc.Spec.Cordoned = true
			if diff := cmp.Diff([]string{"offer milan"}, w.pass(t, r)); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			cordoned := w.offers[0].Spec
			for name, quantity := range inAll(cordoned.Nodes) {
				if !quantity.IsZero() {
					t.Errorf("its nodes have %s of %s", quantity.String(), name)
				}
			}
			for name, quantity := range cordoned.Resources {
				if !quantity.IsZero() {
					t.Errorf("there are %s of %s", quantity.String(), name)
				}
			}
			if len(cordoned.Resources) != len(before.Resources) || len(cordoned.Nodes) != len(before.Nodes) || cordoned.Withdrawn {
				t.Errorf("offer %+v", cordoned)
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
			w.fc.Spec.Cordoned = false
			w.pass(t, r)
			if !equality.Semantic.DeepEqual(before, w.offers[0].Spec) {
				t.Errorf("afterwards the offer is %+v, not %+v", w.offers[0].Spec, before)
			}
		})
	}
}

func TestACordonEmptiesAnOfferAlsoWhereAnAdministratorDecides(t *testing.T) {
	for _, shape := range []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode} {
		t.Run(string(shape), func(t *testing.T) {
			w := provides()
			w.fc.Spec.Lending.Shape = shape
			w.pass(t, w.provider(DefaultPolicy()))
			policy := DefaultPolicy()
			policy.AutoAccept = false
			r := w.provider(policy)
			before := w.offers[0].Spec
			// What could be offered by now is not what an administrator agreed to.
			w.machines[0].Status.Allocatable = list("cpu", "64", "memory", "64Gi", "pods", "110")
			w.fc.Spec.Cordoned = true
			w.pass(t, r)
			for name, quantity := range w.offers[0].Spec.Resources {
				if !quantity.IsZero() {
					t.Errorf("there are %s of %s", quantity.String(), name)
				}
			}
			if status := w.requests[0].Status; status.Phase != v1alpha1.NegotiationAccepted || !strings.Contains(why(status.Conditions), "nothing new") {
				t.Errorf("answer %s, %q", status.Phase, why(status.Conditions))
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
			w.fc.Spec.Cordoned = false
			w.pass(t, r)
			if !equality.Semantic.DeepEqual(before, w.offers[0].Spec) || len(w.offers[0].Annotations) > 0 {
				t.Errorf("afterwards the offer is %+v, not %+v; annotations %v", w.offers[0].Spec, before, w.offers[0].Annotations)
			}
		})
	}
}

func TestAProviderLeavesAnAdministratorsOffersAlone(t *testing.T) {
	by := func(name string) *v1alpha1.ResourceOffer {
		return &v1alpha1.ResourceOffer{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name},
			Spec:       v1alpha1.ResourceOfferSpec{ClusterID: milanID, Resources: list("cpu", "500m")},
		}
	}
	for _, test := range []struct {
		name, offer, own string
		manual, cordoned bool
		answer, says     string
	}{
		{"beside its own", "batch", "milan", false, false, "milan", "policy allows"},
		{"with the name of its own", "milan", "milan-2", false, false, "milan-2", "policy allows"},
		{"where an administrator decides", "batch", "", true, false, "batch", "made an offer"},
		{"of a consumer that is cordoned, and says so", "batch", "", true, true, "batch", "stays open although the consumer is cordoned: batch."},
		{"of a consumer that is cordoned before there is another one", "batch", "", false, true, "", "stays open although the consumer is cordoned: batch."},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := provides()
			w.offers = append(w.offers, by(test.offer))
			w.fc.Spec.Cordoned = test.cordoned
			policy := DefaultPolicy()
			policy.AutoAccept = !test.manual
			r := w.provider(policy)
			w.pass(t, r)
			if diff := cmp.Diff(by(test.offer), w.offers[0]); diff != "" {
				t.Errorf("the administrator's offer (-want +got):\n%s", diff)
			}
			own := ""
			if len(w.offers) > 1 {
				own = w.offers[1].Name
			}
			status := w.requests[0].Status
			if own != test.own || status.OfferName != test.answer || !strings.Contains(why(status.Conditions), test.says) {
				t.Errorf("its own is %q; it answers with %q: %s", own, status.OfferName, why(status.Conditions))
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
		})
	}
	t.Run("also when it is made later, and comes first by name", func(t *testing.T) {
		w := provides()
		r := w.provider(DefaultPolicy())
		w.pass(t, r)
		w.offers = append(w.offers, by("batch"))
		if writes := w.pass(t, r); len(writes) > 0 || w.requests[0].Status.OfferName != "milan" {
			t.Errorf("wrote %v, and answers with %s", writes, w.requests[0].Status.OfferName)
		}
	})
}

func TestAProviderWithdraws(t *testing.T) {
	for name, end := range map[string]func(*world){
		"when the consumer does":             func(w *world) { w.requests[0].Spec.Withdrawn = true },
		"when it does not lend any more":     func(w *world) { w.fc.Spec.Incoming = v1alpha1.PeeringDisabled },
		"when the foreign cluster goes":      func(w *world) { w.fc.DeletionTimestamp = &metav1.Time{} },
		"when nobody asks for it any longer": func(w *world) { w.requests = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := provides()
			r := w.provider(DefaultPolicy())
			w.pass(t, r)
			end(w)
			if diff := cmp.Diff([]string{"offer milan"}, w.pass(t, r)); diff != "" || !w.offers[0].Spec.Withdrawn {
				t.Fatalf("withdrawn: %v, writes (-want +got):\n%s", w.offers[0].Spec.Withdrawn, diff)
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("the second pass wrote %v", writes)
			}
		})
	}
}

func TestAProviderWaitsForItsAdministratorIfThePolicySaysSo(t *testing.T) {
	w := provides()
	policy := DefaultPolicy()
	policy.AutoAccept = false
	r := w.provider(policy)
	w.pass(t, r)
	if phase := w.requests[0].Status.Phase; phase != v1alpha1.NegotiationManualActionRequired || len(w.offers) > 0 {
		t.Fatalf("phase %s, %d offers", phase, len(w.offers))
	}
	w.offers = append(w.offers, &v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Name: "milan"}})
	w.pass(t, r)
	if phase := w.requests[0].Status.Phase; phase != v1alpha1.NegotiationAccepted {
		t.Errorf("phase %s after the administrator made an offer", phase)
	}
}

func consumes() *world {
	return &world{fc: &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec:       v1alpha1.ForeignClusterSpec{ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled, Resources: list("cpu", "1")},
		Status:     v1alpha1.ForeignClusterStatus{PeerNamespace: "liqo-peer-milan", RemoteTenantNamespace: "liqo-tenant-rome"},
	}}
}

func offered(name string, change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
	offer := &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: name, Generation: 1},
		Spec:       v1alpha1.ResourceOfferSpec{ClusterID: milanID, Resources: list("cpu", "1"), Labels: map[string]string{"topology.liqo.io/region": "north"}},
	}
	change(offer)
	return offer
}

func TestAConsumerAsksAcceptsAndLeaves(t *testing.T) {
	w := consumes()
	r := w.consumer()
	if diff := cmp.Diff([]string{"create request rome"}, w.pass(t, r)); diff != "" {
		t.Fatalf("asking (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1"}, text(w.requests[0].Spec.Resources)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	w.offers = append(w.offers, offered("milan", func(*v1alpha1.ResourceOffer) {}))
	if diff := cmp.Diff([]string{"offer milan", "create node milan"}, w.pass(t, r)); diff != "" {
		t.Fatalf("accepting (-want +got):\n%s", diff)
	}
	want := v1alpha1.VirtualNodeSpec{
		ClusterID: milanID, NodeName: "liqo-milan", OfferName: "milan",
		Resources: list("cpu", "1"), Labels: map[string]string{"topology.liqo.io/region": "north"},
	}
	if !equality.Semantic.DeepEqual(want, w.nodes[0].Spec) {
		t.Errorf("virtual node %+v, want %+v", w.nodes[0].Spec, want)
	}
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a pass with nothing to change wrote %v", writes)
	}

	w.fc.Spec.Outgoing = v1alpha1.PeeringDisabled
	w.fc.Status.OutgoingPeering = v1alpha1.PeeringEstablished
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a pass while data at the provider holds the peering wrote %v", writes)
	}
	w.fc.Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
	if diff := cmp.Diff([]string{"delete node milan"}, w.pass(t, r)); diff != "" {
		t.Fatalf("leaving (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"request rome"}, w.pass(t, r)); diff != "" || !w.requests[0].Spec.Withdrawn {
		t.Fatalf("withdrawn %v (-want +got):\n%s", w.requests[0].Spec.Withdrawn, diff)
	}
	if writes := w.pass(t, r); len(writes) > 0 {
		t.Errorf("a pass after leaving wrote %v", writes)
	}
}

func TestAConsumerGivesAWithdrawnOfferBackWhenItsNodesAreGone(t *testing.T) {
	w := consumes()
	r := w.consumer()
	w.pass(t, r)
	w.offers = append(w.offers, offered("milan", func(*v1alpha1.ResourceOffer) {}))
	w.pass(t, r)
	w.offers[0] = w.offers[0].DeepCopy()
	w.offers[0].Spec.Withdrawn = true
	w.pass(t, r)
	if phase := w.offers[0].Status.Phase; len(w.nodes) > 0 || phase == v1alpha1.NegotiationWithdrawn {
		t.Fatalf("phase %s while %d nodes are there", phase, len(w.nodes))
	}
	w.pass(t, r)
	if phase := w.offers[0].Status.Phase; phase != v1alpha1.NegotiationWithdrawn {
		t.Errorf("phase %s after the nodes have gone", phase)
	}
}

func TestAConsumerTakesAllOffersThatAreItsProviders(t *testing.T) {
	w := consumes()
	w.offers = []*v1alpha1.ResourceOffer{
		offered("milan", func(*v1alpha1.ResourceOffer) {}),
		offered("other", func(*v1alpha1.ResourceOffer) {}),
		offered("foreign", func(o *v1alpha1.ResourceOffer) { o.Spec.ClusterID = romeID }),
	}
	w.pass(t, w.consumer())
	phases := map[string]v1alpha1.NegotiationPhase{}
	for _, offer := range w.offers {
		phases[offer.Name] = offer.Status.Phase
	}
	want := map[string]v1alpha1.NegotiationPhase{
		"milan": v1alpha1.NegotiationAccepted, "other": v1alpha1.NegotiationAccepted, "foreign": v1alpha1.NegotiationRefused,
	}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestOneOfSeveralOffersMakesVirtualNodesByItself(t *testing.T) {
	w := consumes()
	r := w.consumer()
	w.pass(t, r)
	w.offers = []*v1alpha1.ResourceOffer{
		offered("batch", func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = list("cpu", "8") }),
		offered("milan", func(*v1alpha1.ResourceOffer) {}),
	}
	ofTeam := &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan-batch"},
		Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan-batch", OfferName: "batch", Resources: list("cpu", "4")},
	}
	w.nodes = append(w.nodes, ofTeam)
	names := func(name string) {
		w.requests[0] = w.requests[0].DeepCopy()
		w.requests[0].Status.OfferName = name
	}
	withdraws := func(index int) {
		w.offers[index] = w.offers[index].DeepCopy()
		w.offers[index].Spec.Withdrawn = true
	}
	for _, stage := range []struct {
		name   string
		change func()
		want   map[string]string
	}{
		{"the one that the provider names", func() { names("milan") }, map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"the one that it has, while the provider says nothing", func() { names("") }, map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"another one, which the provider names now", func() { names("batch") }, map[string]string{"milan-batch": "batch", "milan": "batch"}},
		{"the first one again", func() { names("milan") }, map[string]string{"milan-batch": "batch", "milan": "milan"}},
		{"with the other one its virtual nodes go", func() { withdraws(0) }, map[string]string{"milan": "milan"}},
		{"with the last one all go", func() { withdraws(1) }, map[string]string{}},
	} {
		stage.change()
		w.pass(t, r)
		got := map[string]string{}
		for _, node := range w.nodes {
			got[node.Name] = node.Spec.OfferName
		}
		if diff := cmp.Diff(stage.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stage.name, diff)
		}
		w.pass(t, r)
		if writes := w.pass(t, r); len(writes) > 0 {
			t.Errorf("%s: a pass with nothing to change wrote %v", stage.name, writes)
		}
	}
}

func TestAConsumerWithoutAnIdentityAsksForNothing(t *testing.T) {
	w := consumes()
	w.fc.Status.RemoteTenantNamespace = ""
	if writes := w.pass(t, w.consumer()); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}
