// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// machine is a node of two CPUs and a GPU.
func machine(labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Status:     corev1.NodeStatus{Allocatable: list("cpu", "2", "pods", "100", "example.com/gpu", "2")},
	}
}

func TestOffersFollowThePolicyOfTheClusterAndOfTheConsumer(t *testing.T) {
	for _, test := range []struct {
		name    string
		policy  func(*Policy)
		lending func(*v1alpha1.PeeringLending)
		asked   corev1.ResourceList
		want    map[string]string
	}{
		{"half of everything", nil, nil, nil, map[string]string{"cpu": "3", "pods": "150", "example.com/gpu": "3"}},
		{
			"no more than the limits, and no GPU",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "2", "pods": "1k", "example.com/gpu": "0"} }, nil, nil,
			map[string]string{"cpu": "2", "pods": "150"},
		},
		{
			"no more than is asked for",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "2"} }, nil, list("cpu", "1", "pods", "10"),
			map[string]string{"cpu": "1", "pods": "10", "example.com/gpu": "3"},
		},
		{
			"this consumer gets more of one thing and less of another",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "1", "pods": "20"} },
			func(l *v1alpha1.PeeringLending) {
				l.SharePercent, l.Limits = ptr.To[int32](100), list("cpu", "5", "example.com/gpu", "1")
			},
			nil, map[string]string{"cpu": "5", "pods": "20", "example.com/gpu": "1"},
		},
		{
			"the nodes that are shared",
			func(p *Policy) { p.NodeSelector = map[string]string{"pool": "a"} }, nil, nil,
			map[string]string{"cpu": "2", "pods": "100", "example.com/gpu": "2"},
		},
		{
			"the nodes that are shared with this consumer",
			func(p *Policy) { p.NodeSelector = map[string]string{"pool": "a"} },
			func(l *v1alpha1.PeeringLending) { l.NodeSelector = map[string]string{"pool": "b"} }, nil,
			map[string]string{"cpu": "1", "pods": "50", "example.com/gpu": "1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := provides()
			w.machines = []*corev1.Node{machine(map[string]string{"pool": "a"}), machine(map[string]string{"pool": "a"}), machine(map[string]string{"pool": "b"})}
			policy := DefaultPolicy()
			policy.SharePercent = 50
			if test.policy != nil {
				test.policy(&policy)
			}
			if errs := policy.Validate(); len(errs) > 0 {
				t.Fatal(errs)
			}
			if test.lending != nil {
				test.lending(&w.fc.Spec.Lending)
			}
			w.requests[0].Spec.Resources = test.asked
			r := w.provider(policy)
			w.pass(t, r)
			if diff := cmp.Diff(test.want, text(w.offers[0].Spec.Resources)); diff != "" {
				t.Errorf("the offer (-want +got):\n%s", diff)
			}
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
		})
	}
}

func TestWhatAConsumerIsToldIsItsOwnAsFarAsItsForeignClusterSays(t *testing.T) {
	policy := DefaultPolicy()
	policy.Labels = map[string]string{"topology.liqo.io/region": "north", "tier": "basic"}
	policy.StorageClasses, policy.IngressClasses, policy.LoadBalancerClasses = []string{"slow"}, []string{"shared"}, []string{"example.com/shared"}
	w := provides()
	w.fc.Spec.Lending.Labels = map[string]string{"tier": "gold"}
	w.fc.Spec.Lending.StorageClasses, w.fc.Spec.Lending.IngressClasses = []string{"fast", "slow"}, []string{"private"}
	w.fc.Spec.Lending.Limits = list("requests.storage", "10Gi")
	r := w.provider(policy)
	w.pass(t, r)
	got := w.offers[0].Spec
	got.ClusterID, got.Resources = "", nil
	want := v1alpha1.ResourceOfferSpec{
		Labels:         map[string]string{"topology.liqo.io/region": "north", "tier": "gold"},
		StorageClasses: []string{"fast", "slow"}, IngressClasses: []string{"private"}, LoadBalancerClasses: []string{"example.com/shared"},
		Storage: list("requests.storage", "10Gi"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the offer (-want +got):\n%s", diff)
	}
	w.fc = w.fc.DeepCopy()
	w.fc.Spec.Lending = v1alpha1.PeeringLending{}
	w.pass(t, r)
	if got := w.offers[0].Spec; got.Labels["tier"] != "basic" || got.IngressClasses[0] != "shared" {
		t.Errorf("without words of its own it is told %+v", got)
	}
}

func TestOffersFollowNodesThatComeAndGo(t *testing.T) {
	w := provides()
	for range 10 {
		w.machines = append(w.machines, machine(nil))
	}
	w.machines = w.machines[1:]
	policy := DefaultPolicy()
	policy.SharePercent, policy.ChangePercent = 100, 15
	r := w.provider(policy)
	w.pass(t, r)
	for _, stage := range []struct {
		name   string
		change func()
		cpu    string
	}{
		{"one of ten is cordoned, which is too little", func() { w.machines[0].Spec.Unschedulable = true }, "20"},
		{"a second one is gone", func() { w.machines = w.machines[:9] }, "16"},
		{"one comes back, which is too little", func() { w.machines[0].Spec.Unschedulable = false }, "16"},
		{"so does the other", func() { w.machines = append(w.machines, machine(nil)) }, "20"},
		{"all go", func() { w.machines = nil }, "0"},
		{"one comes", func() { w.machines = append(w.machines, machine(nil)) }, "2"},
	} {
		stage.change()
		w.pass(t, r)
		if cpu := text(w.offers[0].Spec.Resources)["cpu"]; cpu != stage.cpu {
			t.Errorf("%s: %s CPUs are offered, not %s", stage.name, cpu, stage.cpu)
		}
		if phase := w.requests[0].Status.Phase; phase != v1alpha1.NegotiationAccepted {
			t.Errorf("%s: the request is %s", stage.name, phase)
		}
		if writes := w.pass(t, r); len(writes) > 0 {
			t.Errorf("%s: a pass with nothing to change wrote %v", stage.name, writes)
		}
	}
}

func TestAConsumerIsToldWhileItUsesMoreThanItIsGranted(t *testing.T) {
	w := provides()
	r := w.provider(DefaultPolicy())
	w.pass(t, r)
	answers := func(phase v1alpha1.NegotiationPhase) {
		w.offers[0] = w.offers[0].DeepCopy()
		w.offers[0].Status.Phase = phase
	}
	answers(v1alpha1.NegotiationAccepted)
	w.used = list("cpu", "1", "pods", "10")
	for _, stage := range []struct {
		name   string
		change func()
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		{"it always had enough", func() {}, "", "", ""},
		{"less is offered than runs", func() { w.fc.Spec.Lending.Limits = list("cpu", "500m") }, metav1.ConditionFalse, "GrantLowered", "More is used than is granted of cpu."},
		{"that has ended", func() { w.used = list("cpu", "500m", "pods", "5") }, metav1.ConditionTrue, "Enough", "within what is granted"},
		{"less storage is offered than stored", func() {
			w.fc.Spec.Lending.Limits = list("cpu", "500m", "requests.storage", "1Gi", "persistentvolumeclaims", "1")
			w.stored = list("requests.storage", "3Gi", "persistentvolumeclaims", "2", "fast.storageclass.storage.k8s.io/requests.storage", "3Gi")
		}, metav1.ConditionFalse, "GrantLowered", "More is used than is granted of persistentvolumeclaims, requests.storage."},
		{"it is deleted", func() { w.stored = list("requests.storage", "1Gi", "persistentvolumeclaims", "1") }, metav1.ConditionTrue, "Enough", ""},
		{"no storage is offered any more", func() { w.fc.Spec.Lending.Limits = list("cpu", "500m") }, metav1.ConditionFalse, "GrantLowered",
			"More is used than is granted of requests.storage."},
		{"it does not accept the offer any more", func() { answers(v1alpha1.NegotiationRefused) }, metav1.ConditionFalse, "GrantLowered", "More is used than is granted of cpu, pods, requests.storage."},
	} {
		stage.change()
		// The offer changes first, and brings the next pass.
		w.pass(t, r)
		w.pass(t, r)
		condition := meta.FindStatusCondition(w.requests[0].Status.Conditions, v1alpha1.ConditionWithinGrant)
		if condition == nil {
			condition = &metav1.Condition{}
		}
		if condition.Status != stage.status || condition.Reason != stage.reason || !strings.Contains(condition.Message, stage.says) {
			t.Errorf("%s: %s, %s, %q", stage.name, condition.Status, condition.Reason, condition.Message)
		}
		if writes := w.pass(t, r); len(writes) > 0 {
			t.Errorf("%s: a pass with nothing to change wrote %v", stage.name, writes)
		}
	}
}

func TestPoliciesThatMakeNoSenseAreRefused(t *testing.T) {
	policy := DefaultPolicy()
	policy.SharePercent, policy.ChangePercent = 0, 101
	policy.Limits = map[string]string{"a b": "1", "cpu": "-1"}
	policy.NodeSelector = map[string]string{"a b": "c"}
	errs := policy.Validate()
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	for _, want := range []string{"--share-percent 0", "--offer-change-percent 101", "--offer-limits a b=1", "--offer-limits cpu=-1", "--share-node-selector a b=c"} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%s is not among %q", want, all)
		}
	}
}
