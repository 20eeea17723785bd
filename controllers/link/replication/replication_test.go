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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// cluster is a side with one object of a kind, and records writes.
type cluster[T client.Object] struct {
	object T
	exists bool
	writes []string
}

func holding[T client.Object](object T) *cluster[T] { return &cluster[T]{object: object, exists: true} }

func (c *cluster[T]) get(_ context.Context, name string) (T, error) {
	if !c.exists {
		return c.object, apierrors.NewNotFound(v1alpha1.Resource("x"), name)
	}
	return c.object, nil
}

func (c *cluster[T]) create(_ context.Context, wanted T) error {
	c.object, c.exists, c.writes = wanted, true, append(c.writes, "create")
	c.object.SetGeneration(1)
	return nil
}

func (c *cluster[T]) commit(_ context.Context, old, wanted T) error {
	if equality.Semantic.DeepEqual(old, wanted) {
		return nil
	}
	c.object, c.writes = wanted, append(c.writes, "patch")
	return nil
}

func (c *cluster[T]) remove(context.Context, T) error {
	c.exists, c.writes = false, append(c.writes, "delete")
	return nil
}

func (c *cluster[T]) wrote() []string {
	writes := c.writes
	c.writes = nil
	return writes
}

func newRequest(cpu string, generation int64) *v1alpha1.ResourceRequest {
	return &v1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Generation: generation},
		Spec: v1alpha1.ResourceRequestSpec{
			Resources: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu)},
		},
	}
}

func TestSpecIsCopiedToTheProviderAndStatusBack(t *testing.T) {
	local, remote := holding(newRequest("1", 7)), &cluster[*v1alpha1.ResourceRequest]{}
	pass := func() {
		t.Helper()
		if err := replicatePair(t.Context(), requestPairs{}, "rome", local, remote); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, atLocal, atRemote []string) {
		t.Helper()
		if diff := cmp.Diff([][]string{atLocal, atRemote}, [][]string{local.wrote(), remote.wrote()}); diff != "" {
			t.Fatalf("%s (-want +writes of the local and of the remote cluster):\n%s", what, diff)
		}
	}
	pass()
	expect("a new request is copied", nil, []string{"create"})
	if remote.object.Status.Phase != "" || !equality.Semantic.DeepEqual(remote.object.Spec, local.object.Spec) {
		t.Errorf("copy %+v", remote.object)
	}
	pass()
	expect("equal objects are not written", nil, nil)

	remote.object = remote.object.DeepCopy()
	remote.object.Status = v1alpha1.ResourceRequestStatus{
		Phase: v1alpha1.NegotiationAccepted, ObservedGeneration: 1, OfferName: "milan",
		Conditions: []metav1.Condition{
			{
				Type:               v1alpha1.ConditionAccepted,
				Status:             metav1.ConditionTrue,
				Reason:             "Accepted",
				Message:            "yes\x1b[0m",
				ObservedGeneration: 1,
				LastTransitionTime: metav1.Now(),
			},
		},
	}
	pass()
	expect("a status is copied back", []string{"patch"}, nil)
	if got := local.object.Status; got.ObservedGeneration != 7 || got.Conditions[0].ObservedGeneration != 7 ||
		got.Conditions[0].Message != "yes[0m" {
		t.Errorf("status %+v: want the generations of the local object, and printable text of the peer", got)
	}
	pass()
	expect("a status is copied back once", nil, nil)

	changed := newRequest("2", 8)
	changed.Status = local.object.Status
	local.object = changed
	pass()
	expect("a new spec is the only write of its pass", nil, []string{"patch"})
	remote.object.SetGeneration(2)
	pass()
	expect("the status of an older spec keeps its generation", nil, nil)
	if local.object.Status.ObservedGeneration != 7 {
		t.Errorf("observed generation %d", local.object.Status.ObservedGeneration)
	}
	local.exists = false
	pass()
	expect("the copy of a deleted object is deleted", nil, []string{"delete"})
	pass()
	expect("it is deleted once", nil, nil)
}

func TestTerminatingObjectsAreNotChanged(t *testing.T) {
	gone := &metav1.Time{}
	going := newRequest("1", 1)
	going.DeletionTimestamp = gone
	local, remote := holding(newRequest("2", 1)), holding(going)
	if err := replicatePair(t.Context(), requestPairs{}, "rome", local, remote); err != nil {
		t.Fatal(err)
	}
	if writes := append(local.wrote(), remote.wrote()...); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

func TestSpecOfAPeerIsBounded(t *testing.T) {
	offer := &v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	offer.Spec.Labels = map[string]string{}
	for i := range maxSpec / 64 {
		offer.Spec.Labels[strings.Repeat("k", 40)+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = "v"
	}
	remote, local := holding(offer), &cluster[*v1alpha1.ResourceOffer]{}
	if err := replicatePair(t.Context(), offerPairs{}, "milan", remote, local); err == nil || len(local.wrote()) > 0 {
		t.Errorf("an offer of more than %d bytes was copied (%v)", maxSpec, err)
	}
}

func TestStatusOfAPeerIsCleaned(t *testing.T) {
	request := &v1alpha1.ResourceRequestStatus{Phase: "Owned", OfferName: "../secrets"}
	for i := range 100 {
		request.Conditions = append(request.Conditions, metav1.Condition{
			Type: fmt.Sprintf("Type%d", i), Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: strings.Repeat("r", 5000), Message: strings.Repeat("m", 5000),
		})
	}
	requestPairs{}.clean(request)
	if request.Phase != v1alpha1.NegotiationPending || request.OfferName != "" ||
		len(request.Conditions) != maxConditions {
		t.Errorf("phase %q, offer %q, %d conditions", request.Phase, request.OfferName, len(request.Conditions))
	}
	if c := request.Conditions[0]; len(c.Reason) != maxReason || len(c.Message) > 1000 {
		t.Errorf("reason of %d and message of %d bytes", len(c.Reason), len(c.Message))
	}
	newer := &v1alpha1.ResourceRequestStatus{
		Phase: "Haggling", APIVersions: []string{"v2", "../v1", "v2", "v1alpha1"},
		Features: []string{"Teleportation", "\x1b"},
		Conditions: []metav1.Condition{
			{
				Type:               v1alpha1.ConditionAccepted,
				Status:             metav1.ConditionTrue,
				Reason:             "Haggling",
				LastTransitionTime: metav1.Now(),
			},
		},
	}
	requestPairs{}.clean(newer)
	if c := newer.Conditions[0]; newer.Phase != v1alpha1.NegotiationPending || c.Status != metav1.ConditionUnknown ||
		!strings.Contains(c.Message, "Haggling") {
		t.Errorf("the status of a newer peer is %q, %+v", newer.Phase, newer.Conditions)
	}
	if !slices.Equal(newer.APIVersions, []string{"v2", "v1alpha1"}) ||
		!slices.Equal(newer.Features, []string{"Teleportation"}) {
		t.Errorf("versions %q, features %q", newer.APIVersions, newer.Features)
	}
	namespaces := &v1alpha1.NamespaceMapStatus{Namespaces: make([]v1alpha1.NamespaceMappingStatus, maxNamespaces+1)}
	for i := range namespaces.Namespaces {
		name := fmt.Sprintf("n%d", i)
		namespaces.Namespaces[i] = v1alpha1.NamespaceMappingStatus{
			Name:       name,
			RemoteName: name,
			Phase:      v1alpha1.NamespaceMappingReady,
		}
	}
	namespaces.Namespaces[0].Message = "a\x00b"
	mapPairs{}.clean(namespaces)
	if len(namespaces.Namespaces) != maxNamespaces || namespaces.Namespaces[0].Message != "ab" {
		t.Errorf("%d namespaces, message %q", len(namespaces.Namespaces), namespaces.Namespaces[0].Message)
	}
}

func TestOnlyRequestsAndMapsOfThisClusterAreSent(t *testing.T) {
	r := &Replicator{ClusterName: "rome"}
	networks := []string{v1alpha1.NetworkConfigOfConsumer, v1alpha1.NetworkConfigOfProvider}
	for _, test := range []struct {
		pairs           pairs
		namespace, name string
		want            []string
	}{
		{requestPairs{r}, "liqo-peer-milan", "rome", []string{"rome"}},
		{requestPairs{r}, "liqo-peer-milan", "paris", nil},
		{requestPairs{r}, "liqo-tenant-milan", "rome", nil},
		{mapPairs{r}, "liqo-peer-milan", "rome", []string{"rome"}},
		{mapPairs{r}, "liqo-peer-milan", "paris", nil},
		{offerPairs{r}, "liqo-peer-milan", "spot", []string{"spot"}},
		{offerPairs{r}, "liqo-tenant-milan", "spot", nil},
		{newNetworkPairs(r), "liqo-peer-milan", v1alpha1.NetworkConfigOfConsumer, networks},
	} {
		object := test.pairs.object()
		object.SetNamespace(test.namespace)
		object.SetName(test.name)
		got := newReconciler(r, test.pairs).requestsOf(t.Context(), object)
		if diff := cmp.Diff(requestsFor(test.namespace, test.want), got); diff != "" {
			t.Errorf("%s %s/%s (-want +got):\n%s", test.pairs.title(), test.namespace, test.name, diff)
		}
	}
}

func TestConnectionThatEndedBeforeTheStartLeadsToNoRequest(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	one := &connection{ended: ended, namespace: "liqo-peer-milan", pairs: requestPairs{&Replicator{ClusterName: "rome"}}}
	if err := one.Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
