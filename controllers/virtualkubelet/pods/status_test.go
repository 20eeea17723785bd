// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/controllers/kit/kittest"
)

// After a restart, the virtual kubelet has another address, which is written to all pods, but not before other changes
// of statuses.
func TestNewPodsDoNotWaitForStatusesWithAnotherHostAddress(t *testing.T) {
	running := func(name, host string) *corev1.Pod {
		pod := localPod(name)
		pod.Status = corev1.PodStatus{
			Phase:   corev1.PodRunning,
			PodIP:   "10.0.1.1",
			HostIP:  host,
			HostIPs: []corev1.HostIP{{IP: host}},
		}
		return pod
	}
	fresh := localPod("fresh")
	pods := []runtime.Object{running("a", "10.0.0.1"), running("b", "10.0.0.1"), running("c", "10.0.0.1"), fresh}
	s := newSender(t, func(string) error { return nil })
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.Clock = clock
	client := kubefake.NewSimpleClientset(pods...)
	s.Local = client
	var reported []string
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		reported = append(reported, action.(clienttesting.PatchAction).GetName())
		return false, nil, nil
	})
	store := kittest.Indexer()
	for _, pod := range pods {
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	s.Lister = corev1listers.NewPodLister(store)
	// publish writes the status of a pod.
	publish := func(pod *corev1.Pod, now corev1.PodStatus) {
		t.Helper()
		if err := s.publish(t.Context(), pod, now); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(i int) {
		publish(pods[i].(*corev1.Pod), running("", "10.0.0.2").Status)
	}

	for i := range 3 {
		moved(i)
	}
	publish(fresh, running("", "10.0.0.2").Status)
	ended := running("", "10.0.0.2").Status
	ended.Phase = corev1.PodSucceeded
	publish(pods[2].(*corev1.Pod), ended)
	if want := []string{"a", "fresh", "c"}; !slices.Equal(reported, want) {
		t.Errorf("written statuses %v, want %v", reported, want)
	}
	reported = nil
	for range 3 {
		moved(1)
	}
	if len(reported) > 0 {
		t.Errorf("%v was written too early", reported)
	}
	clock.SetTime(clock.Now().Add(2 * time.Second / movesPerSecond))
	moved(1)
	if fmt.Sprint(reported) != "[b]" {
		t.Errorf("finally written statuses %v", reported)
	}
}
