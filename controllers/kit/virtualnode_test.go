// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestOnlyTheNumberOfPodsDecidesNothing(t *testing.T) {
	before := &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: v1alpha1.VirtualNodeStatus{Pods: 3}}
	for name, test := range map[string]struct {
		change func(*v1alpha1.VirtualNode)
		want   bool
	}{
		"nothing, as when all is looked at again": {func(*v1alpha1.VirtualNode) {}, false},
		"the number of pods":                      {func(n *v1alpha1.VirtualNode) { n.ResourceVersion, n.Status.Pods = "8", 4 }, true},
		"who wrote that": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.ManagedFields = "8", []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
		}, true},
		"the spec, too": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.Status.Pods, n.Spec.NodeName = "8", 4, "liqo-milan"
		}, false},
		"a condition, too": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.Status.Pods, n.Status.Conditions = "8", 4, []metav1.Condition{{Type: v1alpha1.ConditionReady}}
		}, false},
		"its end": {func(n *v1alpha1.VirtualNode) { n.ResourceVersion, n.DeletionTimestamp = "8", &metav1.Time{} }, false},
	} {
		current := before.DeepCopy()
		test.change(current)
		if got := OnlyPodsCounted(before, current); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if OnlyPodsCounted(before, &v1alpha1.VirtualNodeList{}) {
		t.Error("what is no VirtualNode counts as one")
	}
}
