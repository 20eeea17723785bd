// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Kubelets write their nodes all the time, and most of it concerns no packet.
func TestWhatMattersOfANodeIsItsAddressesAndItsPods(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*corev1.Node)
		same bool
	}{
		{"nothing", func(*corev1.Node) {}, true},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		{"a sign of life", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} }, true},
		{"no pods are put there any more", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"another address", func(n *corev1.Node) { n.Status.Addresses[1].Address = "192.168.1.9" }, false},
		{"one address more", func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"})
		}, false},
		{"no address any more", func(n *corev1.Node) { n.Status.Addresses = nil }, false},
		{"a range of pods", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.1.0/24"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := node("rome-1", 1, "192.168.1.1")
			after := before.DeepCopy()
			test.do(after)
			if got := sameNode(before, after); got != test.same {
				t.Errorf("it is the same: %v", got)
			}
			// What is kept in the caches tells as much.
			for _, n := range []*corev1.Node{before, after} {
				if _, err := trim(n); err != nil {
					t.Fatal(err)
				}
			}
			if got := sameNode(before, after); got != test.same {
				t.Errorf("it is the same, as far as it is kept: %v", got)
			}
		})
	}
}
