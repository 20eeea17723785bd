// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflection

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAnnotationsExcludeObjectsFromReflectionToClusters(t *testing.T) {
	const skip, to = v1alpha1.AnnotationSkipReflection, v1alpha1.AnnotationReflectTo
	for _, test := range []struct {
		name          string
		annotations   map[string]string
		milan, naples bool
	}{
		{"no annotation", nil, false, false},
		{"skipped", map[string]string{skip: ""}, true, true},
		{"for one cluster", map[string]string{to: "milan"}, false, true},
		{"for two clusters", map[string]string{to: "milan, naples"}, false, false},
		{"for a cluster whose ID contains another one", map[string]string{to: "milan2"}, true, true},
		{"for no cluster", map[string]string{to: ""}, true, true},
		{"for one cluster, and skipped", map[string]string{to: "milan", skip: "true"}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Annotations: test.annotations}
			for cluster, want := range map[string]bool{"milan": test.milan, "naples": test.naples} {
				if got := Excludes(object, cluster); got != want {
					t.Errorf("excluded from reflection to %s: %t", cluster, got)
				}
			}
		})
	}
	if !Excludes(&metav1.ObjectMeta{Annotations: map[string]string{to: ""}}, "") {
		t.Error("an empty annotation selects a cluster without an ID")
	}
}

func TestOldestVirtualNodeOfAClusterDecides(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	node := func(name, cluster string, age time.Duration, ends bool) *v1alpha1.VirtualNode {
		made := &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))},
			Spec:       v1alpha1.VirtualNodeSpec{ClusterID: cluster},
		}
		if ends {
			made.DeletionTimestamp = &metav1.Time{Time: start}
		}
		return made
	}
	for _, test := range []struct {
		name  string
		nodes []*v1alpha1.VirtualNode
		want  string
	}{
		{"none", nil, ""},
		{"none of that cluster", []*v1alpha1.VirtualNode{node("a", "naples", 1, false)}, ""},
		{"the only one", []*v1alpha1.VirtualNode{node("a", "milan", 1, false)}, "a"},
		{"the only one, although it is leaving", []*v1alpha1.VirtualNode{node("a", "milan", 1, true)}, "a"},
		{"the oldest", []*v1alpha1.VirtualNode{node("a", "milan", time.Hour, false), node("b", "milan", 2*time.Hour, false)}, "b"},
		{"virtual nodes of other clusters are ignored", []*v1alpha1.VirtualNode{node("a", "milan", time.Hour, false), node("b", "naples", 2*time.Hour, false)}, "a"},
		{"virtual nodes that are being deleted are ignored", []*v1alpha1.VirtualNode{node("a", "milan", 2*time.Hour, true), node("b", "milan", time.Hour, false)}, "b"},
		{"of two of the same age the first by name", []*v1alpha1.VirtualNode{node("b", "milan", 1, false), node("a", "milan", 1, false)}, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if node := DecidingVirtualNode(test.nodes, "milan"); node != nil {
				got = node.Name
			}
			if got != test.want {
				t.Errorf("%q decides, want %q", got, test.want)
			}
		})
	}
}
