// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestTriggerKeepsRequestsForAControllerThatStartsLater(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var trigger Trigger
	trigger.AddAfter(Request("", "milan"), time.Hour)
	if err := trigger.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	trigger.Add(Request("", "naples"))
	for _, want := range []string{"milan", "naples"} {
		if got, _ := queue.Get(); got != Request("", want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestObjectsAreMappedToTheForeignClusterOfTheirNamespace(t *testing.T) {
	for _, test := range []struct {
		object       client.Object
		peer, tenant []reconcile.Request
	}{
		{&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "n"}},
			[]reconcile.Request{Request("", "milan")}, nil},
		{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}}, nil, []reconcile.Request{Request("", "rome")}},
		{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, nil, nil},
	} {
		if diff := cmp.Diff(test.peer, OfPeerNamespace(t.Context(), test.object)); diff != "" {
			t.Errorf("%s, peer (-want +got):\n%s", test.object.GetName(), diff)
		}
		if diff := cmp.Diff(test.tenant, OfTenantNamespace(t.Context(), test.object)); diff != "" {
			t.Errorf("%s, tenant (-want +got):\n%s", test.object.GetName(), diff)
		}
	}
}

func TestSpecChangedSelectsSpecChangesDeletionsAndReplacements(t *testing.T) {
	object := func(change func(*v1alpha1.VirtualNode)) *v1alpha1.VirtualNode {
		node := &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "1", Generation: 1}}
		change(node)
		return node
	}
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.VirtualNode)
		want   bool
	}{
		{"status", func(n *v1alpha1.VirtualNode) { n.Status.Pods = 5 }, false},
		{"spec", func(n *v1alpha1.VirtualNode) { n.Generation = 2 }, true},
		{"deletion", func(n *v1alpha1.VirtualNode) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		{"replaced", func(n *v1alpha1.VirtualNode) { n.UID = "2" }, true},
	} {
		update := event.UpdateEvent{ObjectOld: object(func(*v1alpha1.VirtualNode) {}), ObjectNew: object(test.change)}
		if got := SpecChanged().Update(update); got != test.want {
			t.Errorf("%s: selected %v, want %v", test.name, got, test.want)
		}
	}
}

func TestAllObjectsOfAKindAreRequested(t *testing.T) {
	cached := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "naples"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "db"}},
	).Build()
	clusters := RequestsOfAll(cached, &v1alpha1.ForeignClusterList{})
	pods := RequestsOfAll(cached, &corev1.PodList{}, client.InNamespace("shop"))
	// The second call returns nothing of the first one.
	for range 2 {
		want := []reconcile.Request{Request("", "milan"), Request("", "naples")}
		if diff := cmp.Diff(want, clusters(t.Context(), nil)); diff != "" {
			t.Errorf("requests of ForeignClusters (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]reconcile.Request{Request("shop", "db")}, pods(t.Context(), nil)); diff != "" {
			t.Errorf("requests of pods in a namespace (-want +got):\n%s", diff)
		}
	}
}
