// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		resources[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return resources
}

func text(resources corev1.ResourceList) map[string]string {
	words := map[string]string{}
	for name, quantity := range resources {
		words[string(name)] = quantity.String()
	}
	return words
}

func TestAllocatableCountsNodesThatTakeWork(t *testing.T) {
	worker := func(change func(*corev1.Node)) *corev1.Node {
		node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "4Gi", "pods", "110")}}
		change(node)
		return node
	}
	now := metav1.Now()
	nodes := []*corev1.Node{
		worker(func(*corev1.Node) {}),
		worker(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		}),
		worker(func(n *corev1.Node) {
			n.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
		}),
		worker(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		worker(func(n *corev1.Node) { n.DeletionTimestamp = &now }),
		worker(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}),
	}
	want := map[string]string{"cpu": "4", "memory": "8Gi", "pods": "220"}
	if diff := cmp.Diff(want, text(Allocatable(nodes, nil))); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}

	nodes[1].Labels = map[string]string{"lent": "yes"}
	want = map[string]string{"cpu": "2", "memory": "4Gi", "pods": "110"}
	if diff := cmp.Diff(want, text(Allocatable(nodes, map[string]string{"lent": "yes"}))); diff != "" {
		t.Errorf("allocatable on the nodes that are shared (-want +got):\n%s", diff)
	}
}

func TestOffer(t *testing.T) {
	there := list("cpu", "2", "memory", "4Gi", "pods", "110", "example.com/gpu", "1")
	for _, test := range []struct {
		name    string
		percent int
		asked   corev1.ResourceList
		want    map[string]string
	}{
		{"a share of everything, rounded down, without what comes to nothing", 90, nil, map[string]string{"cpu": "1800m", "memory": "3686Mi", "pods": "99"}},
		{"all of it", 100, nil, map[string]string{"cpu": "2", "memory": "4Gi", "pods": "110", "example.com/gpu": "1"}},
		{"no more than was asked for", 90, list("cpu", "500m", "memory", "64Gi"), map[string]string{"cpu": "500m", "memory": "3686Mi", "pods": "99"}},
		{"nothing of what was not wanted", 90, list("cpu", "0"), map[string]string{"memory": "3686Mi", "pods": "99"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, text(Offer(there, test.percent, test.asked))); diff != "" {
				t.Errorf("offer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOffersNeverExceedShareNorRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, "example.com/gpu"}
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		there, asked := corev1.ResourceList{}, corev1.ResourceList{}
		for _, name := range names {
			there[name] = *resource.NewQuantity(rapid.Int64Range(0, 1<<60).Draw(t, "there "+string(name)), resource.DecimalSI)
			if rapid.Bool().Draw(t, "asked for "+string(name)) {
				asked[name] = *resource.NewQuantity(rapid.Int64Range(0, 1<<60).Draw(t, "asked "+string(name)), resource.DecimalSI)
			}
		}
		there[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(0, 1<<50).Draw(t, "milli"), resource.DecimalSI)
		for name, granted := range Offer(there, percent, asked) {
			all := there[name]
			if granted.AsApproximateFloat64() > all.AsApproximateFloat64()*float64(percent)/100*(1+1e-9) {
				t.Fatalf("%s: %s of %s is more than %d %%", name, granted.String(), all.String(), percent)
			}
			if limit, ok := asked[name]; ok && granted.Cmp(limit) > 0 {
				t.Fatalf("%s: %s is more than the %s that were asked for", name, granted.String(), limit.String())
			}
			if granted.Sign() <= 0 {
				t.Fatalf("%s: %s is no offer", name, granted.String())
			}
		}
		if offer := Offer(there, percent, asked); Moved(offer, offer, asked, 5) {
			t.Fatal("an offer has moved away from itself: an idle cluster would write for ever")
		}
	})
}

func TestMoved(t *testing.T) {
	for _, test := range []struct {
		name                  string
		offered, could, asked corev1.ResourceList
		want                  bool
	}{
		{"a little more", list("cpu", "1000m"), list("cpu", "1049m"), nil, false},
		{"a little less", list("cpu", "1000m"), list("cpu", "951m"), nil, false},
		{"enough more", list("cpu", "1000m"), list("cpu", "1060m"), nil, true},
		{"enough less", list("cpu", "1000m"), list("cpu", "940m"), nil, true},
		{"another resource", list("cpu", "1"), list("cpu", "1", "pods", "1"), nil, true},
		{"a resource for another", list("cpu", "1"), list("pods", "1"), nil, true},
		{"less is asked for, however little", list("cpu", "1000m"), list("cpu", "999m"), list("cpu", "999m"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Moved(test.offered, test.could, test.asked, 5); got != test.want {
				t.Errorf("Moved = %v", got)
			}
		})
	}
}
