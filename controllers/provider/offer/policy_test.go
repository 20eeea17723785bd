// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

// machine returns a node of two CPUs and two GPUs.
func machine(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Allocatable: list("cpu", "2", "pods", "100", "example.com/gpu", "2")},
	}
}

func TestOffersFollowThePolicyOfTheClusterAndOfTheConsumer(t *testing.T) {
	for _, test := range []struct {
		name      string
		policy    func(*Policy)
		incoming  func(*v1alpha1.IncomingPolicy)
		requested corev1.ResourceList
		want      map[string]string
	}{
		{"half of everything", nil, nil, nil, map[string]string{"cpu": "3", "pods": "150", "example.com/gpu": "3"}},
		{
			"no more than the limits, and no GPU",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "2", "pods": "1k", "example.com/gpu": "0"} }, nil, nil,
			map[string]string{"cpu": "2", "pods": "150"},
		},
		{
			"no more than is requested",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "2"} }, nil, list("cpu", "1", "pods", "10"),
			map[string]string{"cpu": "1", "pods": "10", "example.com/gpu": "3"},
		},
		{
			"limits of the consumer, higher and lower",
			func(p *Policy) { p.Limits = map[string]string{"cpu": "1", "pods": "20"} },
			func(l *v1alpha1.IncomingPolicy) {
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
			"the nodes that are shared with the consumer",
			func(p *Policy) { p.NodeSelector = map[string]string{"pool": "a"} },
			func(l *v1alpha1.IncomingPolicy) { l.NodeSelector = map[string]string{"pool": "b"} }, nil,
			map[string]string{"cpu": "1", "pods": "50", "example.com/gpu": "1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := DefaultPolicy()
			policy.SharePercent = 50
			if test.policy != nil {
				test.policy(&policy)
			}
			if errs := policy.Validate(); len(errs) > 0 {
				t.Fatal(errs)
			}
			a, b := map[string]string{"pool": "a"}, map[string]string{"pool": "b"}
			w := newWorld(t, policy, machine("one", a), machine("two", a), machine("three", b))
			if test.incoming != nil {
				w.changeCluster(func(fc *v1alpha1.ForeignCluster) { test.incoming(&fc.Spec.IncomingPolicy) })
			}
			w.changeRequest(func(request *v1alpha1.ResourceRequest) { request.Spec.Resources = test.requested })
			w.pass()
			if diff := cmp.Diff(test.want, text(w.offer().Spec.Resources)); diff != "" {
				t.Errorf("offer (-want +got):\n%s", diff)
			}
			w.rests("offered")
		})
	}
}

func TestForeignClusterOverridesThePolicy(t *testing.T) {
	policy := DefaultPolicy()
	policy.ClusterLabels = map[string]string{"topology.liqo.io/region": "north", "tier": "basic"}
	policy.StorageClasses, policy.IngressClasses = []string{"slow"}, []string{"shared"}
	policy.LoadBalancerClasses = []string{"example.com/shared"}
	w := newWorld(t, policy)
	for _, class := range []string{"slow", "fast"} {
		w.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "example.com"})
	}
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.IncomingPolicy.Labels = map[string]string{"tier": "gold"}
		fc.Spec.IncomingPolicy.StorageClasses, fc.Spec.IncomingPolicy.IngressClasses = []string{"fast", "slow"},
			[]string{"private"}
		fc.Spec.IncomingPolicy.Limits = list("requests.storage", "10Gi")
	})
	w.pass()
	got := w.offer().Spec
	got.ClusterID, got.Resources = "", nil
	want := v1alpha1.ResourceOfferSpec{
		Labels:         map[string]string{"topology.liqo.io/region": "north", "tier": "gold"},
		StorageClasses: []string{"fast", "slow"}, IngressClasses: []string{"private"},
		LoadBalancerClasses: []string{"example.com/shared"}, Storage: list("requests.storage", "10Gi"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offer (-want +got):\n%s", diff)
	}
	w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy = v1alpha1.IncomingPolicy{} })
	w.pass()
	if got := w.offer().Spec; got.Labels["tier"] != "basic" || got.IngressClasses[0] != "shared" {
		t.Errorf("offer of the policy alone: %+v", got)
	}
}

func TestOffersFollowNodes(t *testing.T) {
	var nodes []*corev1.Node
	added := 0
	add := func() {
		added++
		nodes = append(nodes, machine(fmt.Sprintf("worker-%d", added), nil))
	}
	for range 10 {
		add()
	}
	policy := DefaultPolicy()
	policy.SharePercent, policy.ChangePercent = 100, 15
	w := newWorld(t, policy, nodes...)
	w.pass()
	for _, stage := range []struct {
		name   string
		change func()
		cpu    string
	}{
		{"one node of ten is cordoned, which is too little", func() { nodes[0].Spec.Unschedulable = true }, "20"},
		{"a second node is deleted", func() { nodes = nodes[:9] }, "16"},
		{"the cordon ends, which is too little", func() { nodes[0].Spec.Unschedulable = false }, "16"},
		{"a node is added", add, "20"},
		{"all are deleted", func() { nodes = nil }, "0"},
		{"the first is added", add, "2"},
	} {
		stage.change()
		w.setNodes(nodes...)
		w.pass()
		if cpu := text(w.offer().Spec.Resources)["cpu"]; cpu != stage.cpu {
			t.Errorf("%s: %s CPUs are offered, want %s", stage.name, cpu, stage.cpu)
		}
		if phase, _ := w.answer(); phase != v1alpha1.NegotiationAccepted {
			t.Errorf("%s: the request is %s", stage.name, phase)
		}
		w.rests(stage.name)
	}
}

// retainedVolume returns a volume of 1Gi that counts towards the quota of the consumer.
func retainedVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1", Labels: volume.Retained("rome")},
		Spec:       corev1.PersistentVolumeSpec{StorageClassName: "fast", Capacity: list("storage", "1Gi")},
	}
}

func TestUsageBeyondTheGrantIsReported(t *testing.T) {
	w := newWorld(t, DefaultPolicy())
	w.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com"})
	w.pass()
	accept := func(phase v1alpha1.NegotiationPhase) {
		kittest.Change(w.Cluster, tenant, "milan", &v1alpha1.ResourceOffer{},
			func(offer *v1alpha1.ResourceOffer) { offer.Status.Phase = phase })
	}
	limits := func(pairs ...string) {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.Limits = list(pairs...) })
	}
	run := func(number int, cpu string) {
		if err := w.DeleteAllOf(t.Context(), &v1alpha1.ShadowPod{}, client.InNamespace("shop-rome")); err != nil {
			t.Fatal(err)
		}
		for i := range number {
			w.Add(&v1alpha1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: fmt.Sprintf("web-%d", i)},
				Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{
					Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu)},
				}}}},
				Status: v1alpha1.ShadowPodStatus{ForeignCluster: "rome"},
			})
		}
	}
	store := func(sizes ...string) {
		if err := w.DeleteAllOf(t.Context(), &v1alpha1.ShadowVolumeClaim{}, client.InNamespace("shop-rome")); err != nil {
			t.Fatal(err)
		}
		for i, size := range sizes {
			w.Add(&v1alpha1.ShadowVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: fmt.Sprintf("data-%d", i)},
				Spec:       v1alpha1.ShadowVolumeClaimSpec{StorageClassName: "fast", Storage: resource.MustParse(size)},
				Status:     v1alpha1.ShadowVolumeClaimStatus{ForeignCluster: "rome"},
			})
		}
	}
	accept(v1alpha1.NegotiationAccepted)
	run(10, "100m")
	for _, stage := range []struct {
		name     string
		change   func()
		status   metav1.ConditionStatus
		reason   string
		contains string
	}{
		{"always within the grant", func() {}, "", "", ""},
		{"less is offered than runs", func() { limits("cpu", "500m") }, metav1.ConditionFalse, reasonQuotaReduced,
			"The usage exceeds the quota of cpu."},
		{"pods are deleted", func() { run(5, "100m") }, metav1.ConditionTrue, reasonWithinQuota, "within the quota"},
		{"less storage is offered than stored", func() {
			limits("cpu", "500m", "requests.storage", "1Gi", "persistentvolumeclaims", "1")
			store("1Gi", "2Gi")
		}, metav1.ConditionFalse, reasonQuotaReduced,
			"The usage exceeds the quota of persistentvolumeclaims, requests.storage."},
		{"claims are deleted", func() { store("1Gi") }, metav1.ConditionTrue, reasonWithinQuota, ""},
		{"a volume is retained", func() { w.Add(retainedVolume()) }, metav1.ConditionFalse, reasonQuotaReduced,
			"The usage exceeds the quota of persistentvolumeclaims, requests.storage."},
		{"the volume is deleted", func() {
			if err := w.Delete(t.Context(), retainedVolume()); err != nil {
				t.Fatal(err)
			}
		}, metav1.ConditionTrue, reasonWithinQuota, ""},
		{"no storage is offered any more", func() { limits("cpu", "500m") }, metav1.ConditionFalse, reasonQuotaReduced,
			"The usage exceeds the quota of requests.storage."},
		{"the offer is no longer accepted", func() { accept(v1alpha1.NegotiationRefused) }, metav1.ConditionFalse,
			reasonQuotaReduced,
			"The usage exceeds the quota of cpu, pods, requests.storage."},
	} {
		stage.change()
		// The first reconcile changes the offer, and the second one answers the request.
		w.pass()
		w.pass()
		condition := meta.FindStatusCondition(w.request().Status.Conditions, v1alpha1.ConditionWithinQuota)
		if condition == nil {
			condition = &metav1.Condition{}
		}
		if condition.Status != stage.status || condition.Reason != stage.reason ||
			!strings.Contains(condition.Message, stage.contains) {
			t.Errorf("%s: %s, %s, %q", stage.name, condition.Status, condition.Reason, condition.Message)
		}
		w.rests(stage.name)
	}
}

func TestInvalidPoliciesAreRefused(t *testing.T) {
	policy := DefaultPolicy()
	policy.SharePercent, policy.ChangePercent = 0, 101
	policy.Limits = map[string]string{"a b": "1", "cpu": "-1", "cpus": "1"}
	policy.NodeSelector = map[string]string{"a b": "c"}
	policy.ReflectedKinds = []string{"pods"}
	policy.Trust = "Friend"
	errs := policy.Validate()
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	for _, want := range []string{
		"--policy-share-percent 0", "--policy-change-percent 101", "--policy-limits a b=1", "--policy-limits cpu=-1",
		"did you mean cpu?",
		"--policy-node-selector a b=c", "--policy-reflected-kinds",
		`--policy-trust "Friend": must be one of [Tenant SameOwner]`,
	} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%s is not in %q", want, all)
		}
	}
}
