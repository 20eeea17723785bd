// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// cluster holds one object of a kind and what was written to it.
type cluster[T object] struct {
	object T
	there  bool
	writes []string
}

func holding[T object](object T) *cluster[T] { return &cluster[T]{object: object, there: true} }

func (c *cluster[T]) side() side[T] {
	return side[T]{
		get: func(name string) (T, error) {
			if !c.there {
				return c.object, apierrors.NewNotFound(v1alpha1.Resource("x"), name)
			}
			return c.object, nil
		},
		create: func(_ context.Context, wanted T) error {
			c.object, c.there, c.writes = wanted, true, append(c.writes, "create")
			c.object.SetGeneration(1)
			return nil
		},
		commit: func(_ context.Context, old, wanted T) error {
			if equality.Semantic.DeepEqual(old, wanted) {
				return nil
			}
			c.object, c.writes = wanted, append(c.writes, "patch")
			return nil
		},
		remove: func(context.Context, T) error {
			c.there, c.writes = false, append(c.writes, "delete")
			return nil
		},
	}
}

func (c *cluster[T]) wrote() []string {
	writes := c.writes
	c.writes = nil
	return writes
}

func newRequest(cpu string, generation int64) *v1alpha1.ResourceRequest {
	return &v1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Generation: generation},
		Spec:       v1alpha1.ResourceRequestSpec{Resources: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu)}},
	}
}

func TestASpecFlowsThereAndAStatusFlowsBack(t *testing.T) {
	here, there := holding(newRequest("1", 7)), &cluster[*v1alpha1.ResourceRequest]{}
	pass := func() {
		t.Helper()
		if err := sync(t.Context(), requestKind, "rome", here.side(), there.side()); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, local, remote []string) {
		t.Helper()
		if diff := cmp.Diff([][]string{local, remote}, [][]string{here.wrote(), there.wrote()}); diff != "" {
			t.Fatalf("%s (-want +writes here, there):\n%s", what, diff)
		}
	}
	pass()
	expect("a new request is copied", nil, []string{"create"})
	if there.object.Status.Phase != "" || !equality.Semantic.DeepEqual(there.object.Spec, here.object.Spec) {
		t.Errorf("copy %+v", there.object)
	}
	pass()
	expect("what is equal is left alone", nil, nil)

	there.object = there.object.DeepCopy()
	there.object.Status = v1alpha1.ResourceRequestStatus{
		Phase: v1alpha1.NegotiationAccepted, ObservedGeneration: 1, OfferName: "milan",
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", Message: "yes\x1b[0m", ObservedGeneration: 1, LastTransitionTime: metav1.Now()}},
	}
	pass()
	expect("an answer comes back", []string{"patch"}, nil)
	if got := here.object.Status; got.ObservedGeneration != 7 || got.Conditions[0].ObservedGeneration != 7 || got.Conditions[0].Message != "yes[0m" {
		t.Errorf("status %+v: generations are our own, and what a stranger says is made printable", got)
	}
	pass()
	expect("an answer comes back once", nil, nil)

	changed := newRequest("2", 8)
	changed.Status = here.object.Status
	here.object = changed
	pass()
	expect("a new spec goes there, and nothing else in that pass", nil, []string{"patch"})
	there.object.SetGeneration(2)
	pass()
	expect("an answer to an older spec does not pass as one to this", nil, nil)
	if here.object.Status.ObservedGeneration != 7 {
		t.Errorf("observed generation %d", here.object.Status.ObservedGeneration)
	}
	here.there = false
	pass()
	expect("what is gone here goes there", nil, []string{"delete"})
	pass()
	expect("once", nil, nil)
}

func TestWhatIsGoingIsNotTouched(t *testing.T) {
	gone := &metav1.Time{}
	going := newRequest("1", 1)
	going.DeletionTimestamp = gone
	here, there := holding(newRequest("2", 1)), holding(going)
	if err := sync(t.Context(), requestKind, "rome", here.side(), there.side()); err != nil {
		t.Fatal(err)
	}
	if writes := append(here.wrote(), there.wrote()...); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

func TestASpecOfAStrangerIsBounded(t *testing.T) {
	offer := &v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	offer.Spec.Labels = map[string]string{}
	for i := range maxSpec / 64 {
		offer.Spec.Labels[strings.Repeat("k", 40)+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = "v"
	}
	there, here := holding(offer), &cluster[*v1alpha1.ResourceOffer]{}
	if err := sync(t.Context(), offerKind, "milan", there.side(), here.side()); err == nil || len(here.wrote()) > 0 {
		t.Errorf("an offer of more than %d bytes was copied (%v)", maxSpec, err)
	}
}

func TestStatusesOfStrangersAreMadeFit(t *testing.T) {
	request := &v1alpha1.ResourceRequestStatus{Phase: "Owned", OfferName: "../secrets"}
	for i := range 100 {
		request.Conditions = append(request.Conditions, metav1.Condition{
			Type: fmt.Sprintf("Type%d", i), Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: strings.Repeat("r", 5000), Message: strings.Repeat("m", 5000),
		})
	}
	requestKind.cleanStatus(request)
	if request.Phase != v1alpha1.NegotiationPending || request.OfferName != "" || len(request.Conditions) != maxConditions {
		t.Errorf("phase %q, offer %q, %d conditions", request.Phase, request.OfferName, len(request.Conditions))
	}
	if c := request.Conditions[0]; len(c.Reason) != maxReason || len(c.Message) > 1000 {
		t.Errorf("reason of %d and message of %d bytes", len(c.Reason), len(c.Message))
	}
	newer := &v1alpha1.ResourceRequestStatus{
		Phase: "Haggling", APIVersions: []string{"v2", "../v1", "v2", "v1alpha1"}, Features: []string{"Teleportation", "\x1b"},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Haggling", LastTransitionTime: metav1.Now()}},
	}
	requestKind.cleanStatus(newer)
	if c := newer.Conditions[0]; newer.Phase != v1alpha1.NegotiationPending || c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, "Haggling") {
		t.Errorf("an answer of a newer peer is %q, %+v", newer.Phase, newer.Conditions)
	}
	if !slices.Equal(newer.APIVersions, []string{"v2", "v1alpha1"}) || !slices.Equal(newer.Features, []string{"Teleportation"}) {
		t.Errorf("versions %q, features %q", newer.APIVersions, newer.Features)
	}
	namespaces := &v1alpha1.NamespaceMapStatus{Namespaces: make([]v1alpha1.NamespaceMappingStatus, maxNamespaces+1)}
	for i := range namespaces.Namespaces {
		name := fmt.Sprintf("n%d", i)
		namespaces.Namespaces[i] = v1alpha1.NamespaceMappingStatus{Name: name, RemoteName: name, Phase: v1alpha1.NamespaceMappingReady}
	}
	namespaces.Namespaces[0].Message = "a\x00b"
	mapKind.cleanStatus(namespaces)
	if len(namespaces.Namespaces) != maxNamespaces || namespaces.Namespaces[0].Message != "ab" {
		t.Errorf("%d namespaces, message %q", len(namespaces.Namespaces), namespaces.Namespaces[0].Message)
	}
}
