// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// provider simulates a provider's remote pod for one local pod. The consumer stores the status of the local pod only,
// so each step is also a restart of the virtual kubelet.
type provider struct {
	copy     int
	exists   bool
	restarts map[string]int32
	phase    corev1.PodPhase
}

func (p *provider) remote() *RemotePod {
	if !p.exists {
		return nil
	}
	status := runningStatus(0)
	status.ContainerStatuses = nil
	for _, name := range []string{"app", "side"} {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, RestartCount: p.restarts[name], Ready: true,
			ContainerID: fmt.Sprintf("containerd://%d-%s-%d", p.copy, name, p.restarts[name]),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return remotePod(types.UID(strconv.Itoa(p.copy)), status)
}

func TestCountersNeverDecreaseAndFinishedPodsStayFinished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := &provider{restarts: map[string]int32{}}
		local := localPod(scheduled())
		local.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{
			corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
		}).Draw(t, "restartPolicy")
		// total has the minimum of each container's counter while the provider reports correct counters: the number of
		// restarts, and one for each remote pod after the first.
		total := map[string]int32{}
		reachableAddresses, lied := false, false

		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			before := local.Status
			switch rapid.SampledFrom(
				[]string{"restart", "restart", "delete", "create", "lie", "finish"},
			).Draw(t, "step") {
			case "restart":
				if name := rapid.SampledFrom([]string{"app", "side"}).Draw(t, "container"); provider.exists {
					provider.restarts[name]++
					total[name]++
				}
			case "delete":
				provider.exists = false
			case "create":
				if !provider.exists {
					provider.copy++
					provider.exists = true
					if provider.restarts = map[string]int32{}; reachableAddresses {
						total["app"]++
						total["side"]++
					}
					reachableAddresses = true
				}
			case "lie":
				if provider.exists {
					provider.restarts["app"] = rapid.Int32().Draw(t, "lie")
					lied = true
				}
			case "finish":
				if rapid.IntRange(0, 9).Draw(t, "sometimes") == 0 {
					provider.phase = rapid.SampledFrom(
						[]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed},
					).Draw(t, "end")
				}
			}
			shadow := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Phase: provider.phase}}
			local.Status = PodStatus(local, shadow, provider.remote(), nodeIP, later)

			if Terminal(before.Phase) && !SameStatus(&before, &local.Status) {
				t.Fatalf("a finished pod changed from %+v to %+v", before, local.Status)
			}
			if before.Phase == corev1.PodRunning && local.Status.Phase == corev1.PodPending {
				t.Fatal("a pod that ran is pending again")
			}
			for _, s := range before.ContainerStatuses {
				now := find(local.Status.ContainerStatuses, s.Name)
				if now == nil {
					t.Fatalf("the status of container %s is gone", s.Name)
				}
				if now.RestartCount < s.RestartCount {
					t.Fatalf("container %s: %d restarts became %d", s.Name, s.RestartCount, now.RestartCount)
				}
			}
			if !provider.exists || lied || Terminal(local.Status.Phase) {
				continue
			}
			for _, s := range local.Status.ContainerStatuses {
				if s.RestartCount < total[s.Name] {
					t.Fatalf("container %s reports %d restarts, want %d", s.Name, s.RestartCount, total[s.Name])
				}
			}
		}
	})
}
