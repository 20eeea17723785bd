// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAllocatableCountsSchedulableNodes(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		created := &corev1.Node{Status: corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "4Gi", "pods", "110")}}
		change(created)
		return created
	}
	now := metav1.Now()
	nodes := []*corev1.Node{
		node(func(*corev1.Node) {}),
		node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		}),
		node(func(n *corev1.Node) {
			n.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
		}),
		node(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node(func(n *corev1.Node) { n.DeletionTimestamp = &now }),
		node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}),
	}
	want := map[string]string{"cpu": "4", "memory": "8Gi", "pods": "220"}
	if diff := cmp.Diff(want, text(allocatable(nodes, nil))); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}

	nodes[1].Labels = map[string]string{"pool": "shared"}
	want = map[string]string{"cpu": "2", "memory": "4Gi", "pods": "110"}
	if diff := cmp.Diff(want, text(allocatable(nodes, map[string]string{"pool": "shared"}))); diff != "" {
		t.Errorf("allocatable on the shared nodes (-want +got):\n%s", diff)
	}
}

func TestShareOfResources(t *testing.T) {
	resources := list("cpu", "2", "memory", "4Gi", "pods", "110", "example.com/gpu", "1")
	for _, test := range []struct {
		name      string
		percent   int
		requested corev1.ResourceList
		want      map[string]string
	}{
		{"the share is rounded down, without resources of zero", 90, nil,
			map[string]string{"cpu": "1800m", "memory": "3686Mi", "pods": "99"}},
		{"all resources", 100, nil, map[string]string{"cpu": "2", "memory": "4Gi", "pods": "110", "example.com/gpu": "1"}},
		{"the request is a limit", 90, list("cpu", "500m", "memory", "64Gi"),
			map[string]string{"cpu": "500m", "memory": "3686Mi", "pods": "99"}},
		{"a request of zero excludes a resource", 90, list("cpu", "0"), map[string]string{"memory": "3686Mi", "pods": "99"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, text(percentage(resources, test.percent, test.requested))); diff != "" {
				t.Errorf("offer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOffersExceedNeitherShareNorRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, "example.com/gpu"}
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		resources, requested := corev1.ResourceList{}, corev1.ResourceList{}
		for _, name := range names {
			resources[name] = *resource.NewQuantity(rapid.Int64Range(0, 1<<60).Draw(t, "resources "+string(name)),
				resource.DecimalSI)
			if rapid.Bool().Draw(t, "requested "+string(name)) {
				requested[name] = *resource.NewQuantity(rapid.Int64Range(0, 1<<60).Draw(t, "requested "+string(name)),
					resource.DecimalSI)
			}
		}
		resources[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(0, 1<<50).Draw(t, "milli"),
			resource.DecimalSI)
		for name, granted := range percentage(resources, percent, requested) {
			all := resources[name]
			if granted.AsApproximateFloat64() > all.AsApproximateFloat64()*float64(percent)/100*(1+1e-9) {
				t.Fatalf("%s: %s of %s is more than %d %%", name, granted.String(), all.String(), percent)
			}
			if limit, ok := requested[name]; ok && granted.Cmp(limit) > 0 {
				t.Fatalf("%s: %s is more than the %s that were requested", name, granted.String(), limit.String())
			}
			if granted.Sign() <= 0 {
				t.Fatalf("%s: %s is no offer", name, granted.String())
			}
		}
		if offer := percentage(resources, percent, requested); resourcesDiffer(offer, offer, requested, 5) {
			t.Fatal("an offer differs from itself: an idle cluster would not stop writing")
		}
	})
}

func TestOffersChangeByTheConfiguredPercentage(t *testing.T) {
	for _, test := range []struct {
		name                         string
		offered, possible, requested corev1.ResourceList
		want                         bool
	}{
		{"a little more", list("cpu", "1000m"), list("cpu", "1049m"), nil, false},
		{"a little less", list("cpu", "1000m"), list("cpu", "951m"), nil, false},
		{"enough more", list("cpu", "1000m"), list("cpu", "1060m"), nil, true},
		{"enough less", list("cpu", "1000m"), list("cpu", "940m"), nil, true},
		{"another resource", list("cpu", "1"), list("cpu", "1", "pods", "1"), nil, true},
		{"a resource for another", list("cpu", "1"), list("pods", "1"), nil, true},
		{"slightly less is requested", list("cpu", "1000m"), list("cpu", "999m"), list("cpu", "999m"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := resourcesDiffer(test.offered, test.possible, test.requested, 5); got != test.want {
				t.Errorf("differ: %v", got)
			}
		})
	}
}
