// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/harness"
)

func TestPercentiles(t *testing.T) {
	of := func(count int) (all []time.Duration) {
		for i := range count {
			all = append(all, time.Duration(count-i))
		}
		return all
	}
	for _, test := range []struct {
		count    int
		p50, p99 time.Duration
	}{{0, 0, 0}, {1, 1, 1}, {2, 1, 2}, {3, 2, 3}, {30, 15, 30}, {100, 50, 99}, {300, 150, 297}} {
		if p50, p99 := percentile(of(test.count), 50), percentile(of(test.count), 99); p50 != test.p50 || p99 != test.p99 {
			t.Errorf("of 1 to %d, half are at most %d and 99 percent at most %d, want %d and %d", test.count, p50, p99,
				test.p50, test.p99)
		}
	}
}

func TestAddedLatencyIsThatOfBothDirections(t *testing.T) {
	log := &startLog{pods: map[string]podStart{}}
	pod := func(node string, ready bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: corev1.PodSpec{NodeName: node}}
		if ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return pod
	}
	log.local(pod("", false))
	if s := log.pods["one"]; s != (podStart{}) {
		t.Errorf("a pod that waits for its node is on its way: %+v", s)
	}
	log.local(pod(virtual, false))
	log.remote(pod("", false))
	log.remote(pod("milan-fake-1", true))
	log.local(pod(virtual, true))
	seen := log.pods["one"]
	for i, moment := range []time.Time{seen.made, seen.readyRemote, seen.readyLocal} {
		if before := []time.Time{seen.bound, seen.made, seen.readyRemote}[i]; before.IsZero() || moment.Before(before) {
			t.Errorf("moment %d is out of order: %+v", i, seen)
		}
	}
	log.local(pod(virtual, true))
	log.remote(pod("milan-fake-1", true))
	if log.pods["one"] != seen {
		t.Errorf("what was seen again counts: %+v, before %+v", log.pods["one"], seen)
	}

	at := func(milliseconds int) time.Time { return time.UnixMilli(int64(milliseconds)) }
	start := podStart{bound: at(100), made: at(130), readyRemote: at(900), readyLocal: at(910)}
	if start.added() != 40*time.Millisecond {
		t.Errorf("%s were added, want 40ms", start.added())
	}
	late := podStart{bound: at(100), made: at(700), readyRemote: at(900), readyLocal: at(910)}
	want := []row{
		{"added to the start of a pod at 20 pods/s, p50", "100", "–", "40.0 ms (40.0–40.0)", "–", "–"},
		{"added to the start of a pod at 20 pods/s, p99", "100", "–", "40.0 ms (40.0–40.0)", "–", "–"},
		{"added to the start of a pod at 100 pods/s, p50", "300", "–", "40.0 ms (40.0–40.0)", "–", "≤ 50 ms ✓"},
		{"added to the start of a pod at 100 pods/s, p99", "300", "–", "610 ms (610–610)", "–", "≤ 500 ms ✗"},
	}
	got := startRows([]startSample{{20, []podStart{start}}, {100, []podStart{start, late}}})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestRestartsAreJudgedFromTheStartOfTheProcess(t *testing.T) {
	want := []row{
		{"pod of the virtual kubelet deleted → a new offloaded pod Ready", "100", "–", "4.00 s (4.00–4.00)", "–", "–"},
		{"process of the new virtual kubelet started → the same pod Ready", "100", "–", "1.50 s (1.50–1.50)", "–", "≤ 3 s ✓"},
	}
	got := restartRows(100, []restart{{4 * time.Second, 1500 * time.Millisecond}})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestServicesAreJudgedByTheRemoteEndpoints(t *testing.T) {
	sample := serviceSample{local: []time.Duration{20 * time.Millisecond}, remote: []time.Duration{2 * time.Second}}
	want := []row{
		{"Service of 100 endpoints created → all in EndpointSlices of consumer and provider, p50", "100", "20.0 ms (20.0–20.0)", "2000 ms (2000–2000)", "100.00×", "–"},
		{"Service of 100 endpoints created → all in EndpointSlices of consumer and provider, p99", "100", "20.0 ms (20.0–20.0)", "2000 ms (2000–2000)", "100.00×", "≤ 1000 ms ✗"},
	}
	if diff := cmp.Diff(want, serviceRows([]serviceSample{sample}), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestEndpointsOfAServiceAreCountedOverItsSlices(t *testing.T) {
	cluster := &harness.Cluster{Name: "rome", Kube: fake.NewClientset()}
	for name, slice := range map[string]struct {
		service   string
		ready     *bool
		addresses []string
	}{
		"a":       {"web", nil, []string{"10.0.0.1"}},
		"b":       {"web", ptr.To(true), []string{"10.0.0.1", "10.0.0.2"}},
		"waits":   {"web", ptr.To(false), []string{"10.0.0.3"}},
		"another": {"shop", nil, []string{"10.0.0.4"}},
	} {
		object := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: slice.service}}}
		for _, address := range slice.addresses {
			object.Endpoints = append(object.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: slice.ready}})
		}
		if _, err := cluster.Kube.DiscoveryV1().EndpointSlices(serving).Create(t.Context(), object,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := watchSlices(t.Context(), cluster, serving)
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	for service, want := range map[string]int{"web": 2, "shop": 1, "none": 0} {
		if _, err := w.until(t.Context(), service, want); err != nil {
			t.Error(err)
		}
	}
}

func TestManyPodsAreCreatedInSteps(t *testing.T) {
	for last, want := range map[int][]int{1: {1}, 1000: {1000}, 2500: {1000, 2000, 2500}} {
		if diff := cmp.Diff(want, stepsTo(last)); diff != "" {
			t.Errorf("steps to %d (-want +got):\n%s", last, diff)
		}
	}
}

func TestBytesBetweenClustersExcludeThisProgram(t *testing.T) {
	// Sent bytes: rome to milan 100 and to this program 10, milan to rome 20 and to this program 3,
	// and this program 1 to each cluster.
	links := map[string]harness.Link{
		"br0":  {Received: 100 + 10, Sent: 20 + 1},
		"br1":  {Received: 20 + 3, Sent: 100 + 1},
		"host": {Received: 1 + 1, Sent: 10 + 3},
		"c0n0": {Received: 1000, Sent: 1000},
	}
	if got, err := between(links); err != nil || got != 120 {
		t.Errorf("%d bytes and error %v, want 120", got, err)
	}
	delete(links, "br1")
	if got, err := between(links); err == nil {
		t.Errorf("a router without one of the clusters gave %d and no error", got)
	}
}

func TestFootprintIsThatOfTheProductWhilePodsAreCreated(t *testing.T) {
	samples := []sample{
		{size: 100, created: time.Second, creating: usage{"rome federation-virtual-kubelet": time.Second}},
		{size: 1000, where: onVirtual, created: time.Second, creating: usage{"rome federation-virtual-kubelet": time.Second}},
		{size: 100, where: onVirtual, created: 2 * time.Second, crossed: 1_000_000, creating: usage{
			"rome federation-virtual-kubelet": 300 * time.Millisecond, "milan federation-apiserver": 100 * time.Millisecond, "milan kube-apiserver": time.Second,
		}},
	}
	held := []memory{{0, nil}, {100, []ownProcess{{"rome", virtualKubelet, 40 << 20, 50 << 20},
		{"rome", apiServer, 100 << 20, 150 << 20}, {"milan", apiServer, 500 << 20, 500 << 20}}}, {1000, []ownProcess{{"rome", virtualKubelet, 1 << 30, 1 << 30}}}}
	want := []row{
		{"product while pods are created, CPU", "100", "–", "0.20 cores (0.20–0.20)", "–", "≤ 0.5 cores ✓"},
		{"product on milan, memory", "100", "–", "500 MB", "–", "≤ 400 MB ✗"},
		{"product on rome, memory", "100", "–", "140 MB", "–", "≤ 400 MB ✓"},
		{"traffic between the clusters while pods are created", "100", "–", "4.00 Mbit/s (4.00–4.00)", "–", "≤ 5 Mbit/s ✓"},
	}
	if diff := cmp.Diff(want, footprintRows(samples, held), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if rows := footprintRows(samples[:2], held); rows != nil {
		t.Errorf("without 100 offloaded pods there are rows %v", rows)
	}
}
