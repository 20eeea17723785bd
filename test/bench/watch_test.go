// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"liqo.io/federation/test/harness"
)

func TestPodsAreCountedAsTheyChange(t *testing.T) {
	cluster := &harness.Cluster{Name: "rome", Kube: fake.NewClientset()}
	pods := cluster.Kube.CoreV1().Pods(offloaded)
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: offloaded}, Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		}}
	}
	if _, err := pods.Create(t.Context(), pod("early", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	w, err := watchPods(t.Context(), cluster, offloaded, func(pod *corev1.Pod) { seen[pod.Name]++ })
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	for _, step := range []struct {
		what       string
		do         func() error
		all, ready int
	}{
		{"one that was there", func() error { return nil }, 1, 1},
		{"one more", func() error {
			_, err := pods.Create(t.Context(), pod("late", corev1.ConditionFalse), metav1.CreateOptions{})
			return err
		}, 2, 1},
		{"that becomes Ready", func() error {
			_, err := pods.UpdateStatus(t.Context(), pod("late", corev1.ConditionTrue), metav1.UpdateOptions{})
			return err
		}, 2, 2},
		{"and goes", func() error { return pods.Delete(t.Context(), "late", metav1.DeleteOptions{}) }, 1, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if _, err := w.until(t.Context(), step.what,
			func(all, ready int) bool { return all == step.all && ready == step.ready }); err != nil {
			t.Fatal(err)
		}
	}
	if seen["early"] != 1 || seen["late"] != 2 {
		t.Errorf("pods were seen %v times, want early once and late twice", seen)
	}
}
