// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflection

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

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
