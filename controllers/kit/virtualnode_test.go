// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestVirtualNodeChangedIgnoresTheNumberOfPods(t *testing.T) {
	before := &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: v1alpha1.VirtualNodeStatus{Pods: 3},
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.VirtualNode)
		want   bool
	}{
		"nothing, as in a resync": {func(*v1alpha1.VirtualNode) {}, true},
		"only the number of pods": {func(n *v1alpha1.VirtualNode) { n.ResourceVersion, n.Status.Pods = "8", 4 }, false},
		"only managed fields": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.ManagedFields = "8", []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		}, false},
		"spec and number of pods": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.Status.Pods, n.Spec.NodeName = "8", 4, "liqo-milan"
		}, true},
		"condition and number of pods": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.Status.Pods = "8", 4
			n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady}}
		}, true},
		"deletion": {func(n *v1alpha1.VirtualNode) {
			n.ResourceVersion, n.DeletionTimestamp = "8", &metav1.Time{}
		}, true},
	} {
		current := before.DeepCopy()
		test.change(current)
		if got := VirtualNodeChanged(before, current); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
