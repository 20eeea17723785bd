// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/test/fakes"
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
	fakes.React(client, "patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
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

// A provider that changes the statuses of its pods all the time causes a limited number of writes. Each pod gets its
// turn, with its last status.
func TestStatusesAreWrittenAtALimitedRate(t *testing.T) {
	const pods = 300
	s := newSender(t, func(string) error { return nil })
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.Clock = clock
	// A start of 1000 pods is not delayed; here, all but the last 50 of these writes were used already.
	s.statuses.ReserveN(clock.Now(), statusesAtOnce-50)
	var objects []runtime.Object
	store := kittest.Indexer()
	for i := range pods {
		pod := localPod(fmt.Sprintf("web-%d", i))
		objects = append(objects, pod)
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	client := kubefake.NewSimpleClientset(objects...)
	s.Local, s.Lister = client, corev1listers.NewPodLister(store)
	written := map[string]int{}
	total := 0
	fakes.React(client, "patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		written[action.(clienttesting.PatchAction).GetName()]++
		total++
		return false, nil, nil
	})
	change := func(attempt int) {
		t.Helper()
		for _, object := range objects {
			status := corev1.PodStatus{Phase: corev1.PodRunning, Message: fmt.Sprintf("attempt %d", attempt)}
			if err := s.publish(t.Context(), object.(*corev1.Pod), status); err != nil {
				t.Fatal(err)
			}
			s.states.change(cache.MetaObjectToName(object.(*corev1.Pod)), func(s *podState) { s.local.written = "" })
		}
	}
	change(0)
	change(1)
	if total != 50 {
		t.Errorf("%d writes at once, want 50", total)
	}
	const seconds = 10
	for i := range 10 * seconds {
		clock.SetTime(clock.Now().Add(time.Second / 10))
		change(2 + i)
	}
	if want := 50 + seconds*statusesPerSecond; total > want+1 || total < want-statusesPerSecond {
		t.Errorf("%d writes within %d seconds, want about %d", total, seconds, want)
	}
	if len(written) != pods {
		t.Errorf("the statuses of %d pods were written, want %d", len(written), pods)
	}
}

// A pod that got its address without a check, or before the network changed, must not remain an endpoint with it. This
// holds also while the provider is unreachable.
func TestAddressesThatAreNotPermittedAreRemovedFromPods(t *testing.T) {
	for _, test := range []struct {
		name      string
		flat      bool
		reachable bool
		status    corev1.PodStatus
		want      []corev1.PodIP
	}{
		{
			name: "no network", reachable: true,
			status: corev1.PodStatus{PodIP: "10.0.2.2", PodIPs: []corev1.PodIP{{IP: "10.0.2.2"}}},
		},
		{
			name:   "no network, unreachable provider",
			status: corev1.PodStatus{PodIP: "10.0.2.2", PodIPs: []corev1.PodIP{{IP: "10.0.2.2"}}},
		},
		{
			name: "address of a local pod, unreachable provider", flat: true,
			status: corev1.PodStatus{PodIP: "10.9.2.2", PodIPs: []corev1.PodIP{{IP: "10.9.2.2"}, {IP: "fd00::2"}}},
			want:   []corev1.PodIP{{IP: "fd00::2"}},
		},
		{
			name: "flat network, unreachable provider", flat: true,
			status: corev1.PodStatus{PodIP: "10.0.2.2", PodIPs: []corev1.PodIP{{IP: "10.0.2.2"}}},
			want:   []corev1.PodIP{{IP: "10.0.2.2"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSender(t, func(string) error { return nil })
			vn := virtualNodeOf(nil, test.flat)
			s.Network = &Network{
				VirtualNode: func() *v1alpha1.VirtualNode { return vn },
				ClusterInfo: func() *v1alpha1.ClusterInfo { return localRanges("10.9.0.0/16") },
			}
			s.Reachable = func() bool { return test.reachable }
			// The caches of the remote namespace are not filled either.
			s.remoteNamespace.Pods = cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
			pod := localPod("web")
			pod.Status = test.status
			pod.Status.Phase = corev1.PodRunning
			before := pod.DeepCopy()
			s.Local = kubefake.NewClientset(pod.DeepCopy())
			s.Lister = corev1listers.NewPodLister(kittest.Indexer(pod))
			s.Namespaces = fixed{"demo": remotens.State{Offloaded: true, Ready: true, Namespace: s.remoteNamespace}}
			if test.reachable {
				if err := s.publish(t.Context(), pod, s.statusOf(pod, nil, nil)); err != nil {
					t.Fatal(err)
				}
			} else if err := s.reconcile(t.Context(), cache.MetaObjectToName(pod)); err != nil {
				t.Fatal(err)
			}
			written, err := s.Local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, written.Status.PodIPs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if len(test.want) == 0 && written.Status.PodIP != "" ||
				len(test.want) > 0 && written.Status.PodIP != test.want[0].IP {
				t.Errorf("the address is %q", written.Status.PodIP)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the cached pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}
