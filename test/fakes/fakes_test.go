// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package fakes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
)

func TestWatchesContinueFromTheList(t *testing.T) {
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	maps := Followed(fake.NewClientset(named("deleted"), named("kept"))).CoreV1().ConfigMaps("shop")
	list, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.Items) != 2 {
		t.Fatal(list, err)
	}
	if err := maps.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), named("created"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watching, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind watch.EventType
		name string
	}{{watch.Deleted, "deleted"}, {watch.Added, "created"}} {
		if got := <-watching.ResultChan(); got.Type != want.kind || got.Object.(*corev1.ConfigMap).Name != want.name {
			t.Errorf("%s %v, want %s %s", got.Type, got.Object, want.kind, want.name)
		}
	}

	// A watch without a preceding list begins with events for the existing objects.
	watching, err = maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := (<-watching.ResultChan()).Object.(*corev1.ConfigMap)
		got.Labels = map[string]string{"is": "mine"}
		stored, err := maps.Get(t.Context(), got.Name, metav1.GetOptions{})
		if err != nil || len(stored.Labels) > 0 {
			t.Errorf("a watch shares its object with the fake client: %v, %v", stored, err)
		}
	}
}
