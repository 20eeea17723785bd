// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
)

// A pod that failed remains next to its replacement, but an evicted pod does not. So pods do not fail immediately.
func TestPodOfAnUnoffloadedNamespaceHasTimeToBeEvicted(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.Clock = clock
	pod := localPod("web")
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	s.Local = kubefake.NewClientset(pod.DeepCopy())
	known := kittest.Indexer()
	s.Lister = corev1listers.NewPodLister(known)
	s.Reachable = func() bool { return true }
	// look reconciles the pod some time later, and returns its status.
	look := func(after time.Duration, e remotens.State) corev1.PodStatus {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		current, err := s.Local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := known.Update(current); err != nil {
			t.Fatal(err)
		}
		s.Namespaces = fixed{"demo": e}
		if err := s.reconcile(t.Context(), cache.MetaObjectToName(pod)); err != nil {
			t.Fatal(err)
		}
		current, err = s.Local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return current.Status
	}
	ready := func(status corev1.PodStatus) bool { return isReady(&status) }

	gone, awaited := remotens.State{Message: "not offloaded"}, remotens.State{Offloaded: true, Message: "not made yet"}
	for _, after := range []time.Duration{0, evictionGrace - time.Second} {
		if reported := look(
			after,
			gone,
		); reported.Phase != corev1.PodRunning || reported.Reason != v1alpha1.ReasonOffloadingAborted ||
			ready(reported) {
			t.Errorf("after %s: %+v", after, reported)
		}
	}
	look(0, awaited)
	if reported := look(time.Second, gone); reported.Phase != corev1.PodRunning {
		t.Errorf("after it was offloaded in between: %+v", reported)
	}
	if reported := look(
		evictionGrace,
		gone,
	); reported.Phase != corev1.PodFailed ||
		reported.Reason != v1alpha1.ReasonOffloadingAborted {
		t.Errorf("without an eviction: %+v", reported)
	}
}
