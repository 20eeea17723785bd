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
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// After a restart the virtual kubelet has another address. All pods are told in
// the end, and whoever has something else to be told does not come behind them.
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
	var told []string
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		told = append(told, action.(clienttesting.PatchAction).GetName())
		return false, nil, nil
	})
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range pods {
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	s.Lister = corev1listers.NewPodLister(store)
	// tell has a pod told what the one of another name has become.
	tell := func(pod *corev1.Pod, now corev1.PodStatus) {
		t.Helper()
		if err := s.publish(t.Context(), pod, now); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(i int) {
		tell(pods[i].(*corev1.Pod), running("", "10.0.0.2").Status)
	}

	for i := range 3 {
		moved(i)
	}
	tell(fresh, running("", "10.0.0.2").Status)
	ended := running("", "10.0.0.2").Status
	ended.Phase = corev1.PodSucceeded
	tell(pods[2].(*corev1.Pod), ended)
	if want := []string{"a", "fresh", "c"}; !slices.Equal(told, want) {
		t.Errorf("told were %v, and not %v", told, want)
	}
	told = nil
	for range 3 {
		moved(1)
	}
	if len(told) > 0 {
		t.Errorf("%v was told too early", told)
	}
	clock.SetTime(clock.Now().Add(2 * time.Second / movesPerSecond))
	moved(1)
	if fmt.Sprint(told) != "[b]" {
		t.Errorf("in the end, told were %v", told)
	}
}
