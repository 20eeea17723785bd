// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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
	writes   []string
	// reserved are names that virtual nodes cannot have, and unseen is how many of
	// the latest ones are in no cache.
	reserved []string
	unseen   int
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

func list(pairs ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		resources[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return resources
}

func text(resources corev1.ResourceList) map[string]string {
	words := map[string]string{}
	for name, quantity := range resources {
		words[string(name)] = quantity.String()
	}
	return words
}
