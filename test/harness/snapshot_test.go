// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAddedReturnsWhatWasLeftBehind(t *testing.T) {
	key := func(resource, namespace, name string) Key {
		return Key{schema.GroupResource{Resource: resource}, namespace, name}
	}
	object := func(uid, owner types.UID) metav1.ObjectMeta {
		o := metav1.ObjectMeta{UID: uid}
		if owner != "" {
			o.OwnerReferences = []metav1.OwnerReference{{UID: owner}}
		}
		return o
	}
	before := Snapshot{
		key("deployments", "default", "app"): object("7", ""),
		key("namespaces", "", "default"):     object("1", ""),
		key("replicasets", "default", "web"): object("2", ""),
		key("pods", "default", "web-a"):      object("3", "2"),
	}
	after := Snapshot{
		key("namespaces", "", "default"):     object("1", ""),
		key("replicasets", "default", "web"): object("2", ""),
		key("pods", "default", "web-b"):      object("4", "2"),
		key("namespaces", "", "left"):        object("5", ""),
		key("pods", "left", "orphan"):        object("6", "gone"),
		key("deployments", "default", "app"): object("7", ""),
		key("pods", "default", "app-a"):      object("9", "8"),
		key("replicasets", "default", "app"): object("8", "7"),
	}
	want := []string{"namespaces left", "pods left/orphan"}
	if diff := cmp.Diff(want, Added(before, after)); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
}
