// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kittest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestControllerWritesAreRecordedAndCanBeKilled(t *testing.T) {
	c := New(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}})
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	for _, test := range []struct {
		name   string
		done   bool
		exists bool
	}{{"before", false, false}, {"after", true, true}} {
		c.Kill(len(c.Writes), test.done)
		if err := c.Controller.Create(t.Context(), named(test.name)); !errors.Is(err, ErrKilled) {
			t.Errorf("killed %s its write: %v", test.name, err)
		}
		if got := c.Has(named(test.name)); got != test.exists {
			t.Errorf("killed %s its write: written %v, want %v", test.name, got, test.exists)
		}
	}
	if err := c.Controller.Delete(t.Context(), named("old")); err != nil {
		t.Fatal(err)
	}
	if err := c.Controller.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create ConfigMap before", "create ConfigMap after", "delete ConfigMap old", "deletecollection ConfigMap",
	}
	if diff := cmp.Diff(want, c.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestChangeWritesSpecAndStatus(t *testing.T) {
	c := New(t, &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan"}})
	Change(c, "liqo-peer-milan", "milan", &v1alpha1.VirtualNode{}, func(node *v1alpha1.VirtualNode) {
		node.Spec.ClusterID, node.Status.Pods = "milan-id", 3
	})
	if got := Read(c, "liqo-peer-milan", "milan", &v1alpha1.VirtualNode{}); got.Spec.ClusterID != "milan-id" ||
		got.Status.Pods != 3 {
		t.Errorf("cluster ID %q and %d pods, want milan-id and 3", got.Spec.ClusterID, got.Status.Pods)
	}
}

func TestCacheReadsOnlyCachedObjects(t *testing.T) {
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	c := New(t, named("cached"), named("late"))
	cache := c.Cache(func(object client.Object) bool { return object.GetName() == "cached" })
	for name, cached := range map[string]bool{"cached": true, "late": false} {
		object := named(name)
		if err := cache.Get(t.Context(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) == cached {
			t.Errorf("%s: error %v", name, err)
		}
	}
	var all corev1.ConfigMapList
	if err := cache.List(t.Context(), &all); err != nil || len(all.Items) != 1 || all.Items[0].Name != "cached" {
		t.Errorf("list %v, error %v", all.Items, err)
	}
}

func TestRemoveDeletesObjectsWithFinalizers(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "held", Finalizers: []string{"test/stays"},
	}}
	c := New(t, object)
	for range 2 {
		if c.Remove(object); c.Has(object.DeepCopy()) {
			t.Error("the object exists")
		}
	}
}
